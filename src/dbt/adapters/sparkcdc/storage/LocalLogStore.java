package dbtsparkcdc;

import io.delta.storage.HDFSLogStore;
import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.CopyOption;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.StandardCopyOption;
import java.util.Iterator;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * A log store of Delta for the disk of this machine that any number of processes may commit through.
 *
 * <p>Delta's own looks for the file of a version and then renames another one to it: of two processes that do so at the
 * same time, the later one overwrites the commit of the other. Here the file gets its name by a link, which the disk
 * refuses if there is one of that name. Delta's own also starts sixteen processes for each commit, because Hadoop asks
 * `readlink` and `chmod` where it has no native library.
 *
 * <p>The adapter compiles this with the compiler that Spark compiles its queries with, which knows no generics.
 */
public class LocalLogStore extends HDFSLogStore {

    public LocalLogStore(Configuration conf) {
        super(conf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
        java.nio.file.Path target = LocalFiles.pathOf(new File(path.toUri().getPath()));
        if (target == null) {
            super.write(path, actions, overwrite, conf);
            return;
        }
        java.nio.file.Path fresh = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
        try {
            write(fresh, actions, conf);
            // Hadoop would check the new content by what an older file of this name left.
            Files.deleteIfExists(target.resolveSibling("." + target.getFileName() + ".crc"));
            if (overwrite.booleanValue()) {
                Files.move(fresh, target, new CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
            } else if (!link(target, fresh)) {
                super.write(path, Files.readAllLines(fresh).iterator(), overwrite, conf);
            }
        } finally {
            remove(fresh);
        }
    }

    private static void write(java.nio.file.Path file, Iterator actions, Configuration conf) throws IOException {
        // Not a channel, which an interrupt of the thread closes.
        Writer out = new OutputStreamWriter(
            new BufferedOutputStream(new FileOutputStream(file.toFile())), StandardCharsets.UTF_8);
        try {
            while (actions.hasNext()) {
                out.write(actions.next() + "\n");
            }
        } finally {
            out.close();
        }
        LocalFiles.allow(file, LocalFiles.ofFiles(conf));
    }

    /** Gives a file a second name, and returns false where the disk has no links. */
    private static boolean link(java.nio.file.Path target, java.nio.file.Path file) throws IOException {
        try {
            Files.createLink(target, file);
            return true;
        } catch (IOException refused) {
            // The answer of a disk in the network may have been lost, and the request repeated.
            if (Files.exists(target, new LinkOption[0]) && Files.isSameFile(target, file)) {
                return true;
            }
            if (refused instanceof FileAlreadyExistsException || hasLinks(file)) {
                throw refused;
            }
            return false;
        } catch (UnsupportedOperationException none) {
            return false;
        }
    }

    private static boolean hasLinks(java.nio.file.Path file) {
        java.nio.file.Path other = file.resolveSibling(file.getFileName() + ".link");
        try {
            Files.createLink(other, file);
            return true;
        } catch (IOException refused) {
            return false;
        } finally {
            remove(other);
        }
    }

    /** What is left over harms nobody, and a commit that is made must not fail for it. */
    private static void remove(java.nio.file.Path file) {
        try {
            Files.deleteIfExists(file);
        } catch (IOException left) {
            return;
        }
    }
}
