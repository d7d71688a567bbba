package ferrolock.peer;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.redisson.api.RLock;

/** Lock, read-modify-write, unlock; over and over. */
final class Loop {
    private Loop() {}

    /** Goes on for the number of rounds, to the moment, or until stopped, whichever comes first. */
    static Object run(Client client, Request request, BooleanSupplier stopped)
            throws IOException, InterruptedException {
        RLock lock = client.synchronizers().lock(request.field("object"));
        Counter counter = Counter.of(client, request.field("counter"));
        long times = request.number("times", Long.MAX_VALUE);
        long until = request.number("until", Long.MAX_VALUE);
        long holdMs = request.number("hold_ms", 0);
        long done = 0;
        long longestWait = 0;
        while (done < times && System.nanoTime() < until && !stopped.getAsBoolean()) {
            long asked = System.nanoTime();
            lock.lock();
            longestWait = Math.max(longestWait, System.nanoTime() - asked);
            try {
                counter.bump();
                TimeUnit.MILLISECONDS.sleep(holdMs);
            } finally {
                lock.unlock();
            }
            done++;
        }
        return Map.of("done", done, "longest_wait_ns", longestWait);
    }
}
