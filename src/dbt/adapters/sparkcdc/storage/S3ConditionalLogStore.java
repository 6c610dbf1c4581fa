package dbtsparkcdc;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.commons.io.IOUtils;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A log store of Delta for S3 that any number of drivers may commit through.
 *
 * <p>Delta's own asks whether the file of a version is there, and then writes it: of two drivers that do so at the same
 * time, the later one overwrites the commit of the other. Here the store decides. It takes a file only if there is none
 * of its name (`If-None-Match: *`), and the driver that comes second sees a conflict, as on any other file system.
 *
 * <p>The adapter compiles this with the compiler that Spark compiles its queries with, which knows no generics.
 */
public class S3ConditionalLogStore extends S3SingleDriverLogStore {

    private static final int ATTEMPTS = 5;
    private static final long PAUSE = 200;

    public S3ConditionalLogStore(Configuration conf) {
        super(conf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, conf);
            return;
        }
        ByteArrayOutputStream lines = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            lines.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
        }
        byte[] commit = lines.toByteArray();
        FileSystem store = path.getFileSystem(conf);
        for (int attempt = 1;; attempt++) {
            IOException refused;
            try {
                put(store, path, commit);
                return;
            } catch (IOException failure) {
                refused = failure;
            }
            if (isInterrupt(refused)) {
                throw refused;
            }
            byte[] found;
            try {
                found = content(store, path, commit.length);
            } catch (IOException failure) {
                refused.addSuppressed(failure);
                throw refused;
            }
            if (found != null) {
                // The answer to this very file may have been lost, and the request repeated: then it is ours. Each
                // commit has an identity of its own.
                if (Arrays.equals(commit, found)) {
                    return;
                }
                throw new FileAlreadyExistsException(path.toString());
            }
            // S3 can also ask for another attempt, while somebody else writes the file (409).
            if (attempt == ATTEMPTS) {
                throw refused;
            }
            try {
                Thread.sleep(PAUSE * attempt);
            } catch (InterruptedException interrupt) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException(path.toString());
            }
        }
    }

    private static void put(FileSystem store, Path path, byte[] commit) throws IOException {
        FSDataOutputStream out = (FSDataOutputStream) store.createFile(path)
            .overwrite(false)
            .must("fs.option.create.conditional.overwrite", true)
            .build();
        boolean isWhole = false;
        try {
            out.write(commit);
            isWhole = true;
        } finally {
            if (!isWhole) {
                out.abort();
            }
        }
        out.close();
    }

    private static boolean isInterrupt(IOException failure) {
        return failure instanceof InterruptedIOException && !(failure instanceof SocketTimeoutException);
    }

    /** Returns what the file holds, something else where it has another length, and null where there is no file. */
    private static byte[] content(FileSystem store, Path path, long length) throws IOException {
        try {
            if (store.getFileStatus(path).getLen() != length) {
                return new byte[0];
            }
            InputStream in = store.open(path);
            try {
                return IOUtils.toByteArray(in);
            } finally {
                in.close();
            }
        } catch (FileNotFoundException none) {
            return null;
        }
    }
}
