package ferrolock.peer;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.jar.Manifest;

/** Which Redisson this program was built with. */
final class Version {
    static final String OF_REDISSON = read();

    private Version() {}

    private static String read() {
        try (InputStream manifest = Version.class.getResourceAsStream("/META-INF/MANIFEST.MF")) {
            return new Manifest(manifest).getMainAttributes().getValue("Redisson-Version");
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
    }
}
