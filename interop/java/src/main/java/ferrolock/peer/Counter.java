package ferrolock.peer;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.redisson.api.RBucket;
import org.redisson.client.codec.StringCodec;

/** Loses counts if two users count at once: it reads, and writes one more. */
interface Counter {
    void bump() throws IOException;

    /** The counter in a key or a file; what does not exist counts as 0. */
    static Counter of(Client client, JsonNode place) {
        if (place.has("key")) {
            RBucket<String> bucket = client.redisson().getBucket(place.get("key").asText(), StringCodec.INSTANCE);
            return () -> bucket.set(oneMore(bucket.get()));
        }
        Path file = Path.of(place.path("file").asText());
        return () -> bump(file);
    }

    private static void bump(Path file) throws IOException {
        String count;
        try {
            count = Files.readString(file);
        } catch (NoSuchFileException none) {
            count = null;
        }
        // Replaced as a whole: a count may get lost, but no reader may see half a number.
        Path whole = Files.createTempFile(file.toAbsolutePath().getParent(), "counter", null);
        Files.writeString(whole, oneMore(count));
        Files.move(whole, file, StandardCopyOption.ATOMIC_MOVE);
    }

    private static String oneMore(String count) {
        return Long.toString((count == null ? 0 : Long.parseLong(count.trim())) + 1);
    }
}
