package ferrolock.peer;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.api.RedissonClient;

/** A client of Redisson, the threads that use it and the objects that they share. */
final class Client {
    private static final long INTERRUPT_LIMIT_NANOS = 2_000_000_000L;
    private final RedissonClient redisson;
    private final Synchronizers synchronizers;
    private final Map<String, Worker> workers = new ConcurrentHashMap<>();

    Client(RedissonClient redisson, Clients clients) {
        this.redisson = redisson;
        this.synchronizers = new Synchronizers(redisson, clients);
    }

    RedissonClient redisson() {
        return redisson;
    }

    Synchronizers synchronizers() {
        return synchronizers;
    }

    Worker worker(String name) {
        return workers.computeIfAbsent(name, Worker::new);
    }

    /** Ends the thread; a later command for that name gets a new thread. */
    void endWorker(String name, Runnable last) {
        Worker worker = workers.remove(name);
        if (worker == null) {
            throw new IllegalArgumentException("no such thread: " + name);
        }
        worker.end(last);
    }

    /**
     * Interrupts its threads and waits for their end, so that their calls fail while Redisson still answers; except for
     * calls that cannot be interrupted.
     */
    void close() {
        workers.values().forEach(Worker::abandon);
        long until = System.nanoTime() + INTERRUPT_LIMIT_NANOS;
        workers.values().forEach(worker -> worker.awaitEnd(until));
        workers.clear();
        redisson.shutdown();
    }
}
