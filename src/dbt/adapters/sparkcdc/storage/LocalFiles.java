package dbtsparkcdc;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's file system of this machine, without a process for each file.
 *
 * <p>Hadoop starts `chmod` and `readlink` where it has no native library, and Spark comes without. Each file that Spark
 * writes has a second one with its checksum, and each start takes some milliseconds.
 */
public class LocalFiles extends LocalFileSystem {

    /** The bits of a mode that set user and group, and the sticky one. */
    private static final int SPECIAL = 07000;

    public LocalFiles() {
        super(new Raw());
    }

    /** Returns the permissions that Hadoop gives to a new file. */
    static FsPermission ofFiles(Configuration conf) {
        return FsPermission.getFileDefault().applyUMask(FsPermission.getUMask(conf));
    }

    /** Returns a file's path, and null where the locale of this process cannot spell it. */
    static java.nio.file.Path pathOf(File file) {
        try {
            return file.toPath();
        } catch (InvalidPathException unknown) {
            return null;
        }
    }

    /** Sets permissions, and returns false where that takes more than Java can: on Windows, and beside other bits. */
    static boolean allow(java.nio.file.Path file, FsPermission permission) throws IOException {
        try {
            int before = ((Integer) Files.getAttribute(file, "unix:mode", new LinkOption[0])).intValue();
            // `chmod` keeps the group of a folder for what is made in it.
            if (permission.getStickyBit() || (before & SPECIAL) != 0) {
                return false;
            }
            Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permission.toString()));
            return true;
        } catch (UnsupportedOperationException none) {
            return false;
        } catch (IllegalArgumentException none) {
            return false;
        }
    }

    static class Raw extends RawLocalFileSystem {

        public void setPermission(Path path, FsPermission permission) throws IOException {
            java.nio.file.Path file = pathOf(pathToFile(path));
            if (file == null || !allow(file, permission)) {
                super.setPermission(path, permission);
            }
        }

        public FileStatus getFileLinkStatus(Path path) throws IOException {
            java.nio.file.Path file = pathOf(pathToFile(path));
            // What is no link has the status of what it leads to.
            return file == null || Files.isSymbolicLink(file) ? super.getFileLinkStatus(path) : getFileStatus(path);
        }
    }
}
