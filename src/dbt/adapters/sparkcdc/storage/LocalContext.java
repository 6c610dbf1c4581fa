package dbtsparkcdc;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;

/**
 * {@link LocalFiles} for programs that use Hadoop's newer interface, such as Delta for the checksum of a version.
 *
 * <p>Hadoop starts `readlink` twice for each name that a rename touches.
 */
public class LocalContext extends ChecksumFs {

    public LocalContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
        super(new Raw(uri, conf));
    }

    static class Raw extends DelegateToFileSystem {

        Raw(URI uri, Configuration conf) throws IOException, URISyntaxException {
            super(URI.create("file:///"), new LocalFiles.Raw(), conf, "file", false);
        }

        public boolean isValidName(String name) {
            // As Hadoop's own: the disk decides.
            return true;
        }
    }
}
