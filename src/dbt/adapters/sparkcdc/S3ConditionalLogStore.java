package dbtsparkcdc;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
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
        try {
            FSDataOutputStream out = (FSDataOutputStream) store.createFile(path)
                .overwrite(false)
                .must("fs.option.create.conditional.overwrite", true)
                .build();
            out.write(commit);
            out.close();
        } catch (IOException refused) {
            if (!store.exists(path)) {
                throw refused;
            }
            // The answer to this very file may have been lost, and the request repeated: then it is ours.
            if (!Arrays.equals(commit, content(store, path))) {
                throw new FileAlreadyExistsException(path.toString());
            }
        }
    }

    private static byte[] content(FileSystem store, Path path) throws IOException {
        InputStream in = store.open(path);
        try {
            return IOUtils.toByteArray(in);
        } finally {
            in.close();
        }
    }
}
