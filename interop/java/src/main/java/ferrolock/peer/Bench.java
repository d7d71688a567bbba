package ferrolock.peer;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * What the benchmarks measure of Redisson. Each command may be given again and again to the same client, so the first
 * ones warm the machine up.
 *
 * <pre>
 * do       fields                                           result, besides elapsed_ns and cpu_ns (of the process)
 * pairs    client, workers, prefix, names,                  pairs, p50_ns, p99_ns, max_ns
 *          for_ms and/or per_worker
 * contend  client, workers, object{}, for_ms, counter{}?    acquisitions, in_time: those within for_ms,
 *                                                           least and most of a worker, longest_wait_ns
 * holds    client, prefix, names, for_ms                    from and until all were held, lost: how many were not
 * take     client, thread, object{}                         only at_ns: when the thread had the lock
 * leave    client, thread, object{}                         only at_ns: when the thread was about to unlock
 * </pre>
 *
 * A process that is started with the arguments {@code once ADDRESS NAME} opens a client, takes the lock of that name,
 * leaves it, closes the client and ends.
 */
final class Bench {
    private Bench() {}

    /** Each worker takes and leaves one of many locks at random; a pair is both. */
    static Object pairs(Client client, Request request) throws InterruptedException {
        String prefix = request.text("prefix");
        int names = (int) request.number("names");
        long perWorker = request.number("per_worker", Long.MAX_VALUE);
        List<Samples> latencies = new ArrayList<>();
        Crew crew = new Crew((int) request.number("workers"), forTime(request));
        Crew.Spent spent = crew.run((worker, deadline) -> {
            Samples own = new Samples();
            for (long done = 0; done < perWorker && System.nanoTime() < deadline; done++) {
                long asked = System.nanoTime();
                // A new object each time, as in a program that names its locks by what it works on.
                RLock lock = client.redisson().getLock(prefix + ThreadLocalRandom.current().nextInt(names));
                lock.lock();
                lock.unlock();
                own.add(System.nanoTime() - asked);
            }
            synchronized (latencies) {
                latencies.add(own);
            }
        });
        long[] sorted = Samples.sorted(latencies);
        Map<String, Object> result = told(spent);
        result.put("pairs", sorted.length);
        result.put("p50_ns", Samples.quantile(sorted, 0.50));
        result.put("p99_ns", Samples.quantile(sorted, 0.99));
        result.put("max_ns", Samples.quantile(sorted, 1.0));
        return result;
    }

    /** All workers want one lock and leave it at once, or as soon as they have counted one more. */
    static Object contend(Client client, Request request) throws InterruptedException {
        int workers = (int) request.number("workers");
        RLock lock = client.synchronizers().lock(request.field("object"));
        Counter counter = request.has("counter") ? Counter.of(client, request.field("counter")) : () -> {};
        long[] acquisitions = new long[workers];
        long[] inTime = new long[workers];
        long[] longestWaits = new long[workers];
        Crew.Spent spent = new Crew(workers, forTime(request)).run((worker, deadline) -> {
            while (System.nanoTime() < deadline) {
                longestWaits[worker] = Math.max(longestWaits[worker], visit(lock, counter));
                acquisitions[worker]++;
                // The last one of each worker may have come late.
                if (System.nanoTime() < deadline) {
                    inTime[worker]++;
                }
            }
        });
        List<Long> counts = Arrays.stream(acquisitions).boxed().toList();
        Map<String, Object> result = told(spent);
        result.put("acquisitions", counts.stream().mapToLong(Long::longValue).sum());
        result.put("in_time", Arrays.stream(inTime).sum());
        result.put("least", Collections.min(counts));
        result.put("most", Collections.max(counts));
        result.put("longest_wait_ns", Arrays.stream(longestWaits).max().orElse(0));
        return result;
    }

    /** How long the lock was waited for. */
    private static long visit(RLock lock, Counter counter) throws IOException {
        long asked = System.nanoTime();
        lock.lock();
        long waited = System.nanoTime() - asked;
        try {
            counter.bump();
        } finally {
            lock.unlock();
        }
        return waited;
    }

    /** Takes many locks, lets the watchdog keep them for a time, and leaves them. */
    static Object holds(Client client, Request request) throws InterruptedException {
        List<RLock> locks = new ArrayList<>();
        for (int i = 0; i < request.number("names"); i++) {
            RLock lock = client.redisson().getLock(request.text("prefix") + i);
            lock.lock();
            locks.add(lock);
        }
        long from = System.nanoTime();
        Crew.Spent spent = new Crew(1, forTime(request)).run((worker, deadline) ->
                TimeUnit.NANOSECONDS.sleep(deadline - System.nanoTime()));
        long until = System.nanoTime();
        long lost = locks.stream().filter(lock -> !lock.isHeldByCurrentThread()).count();
        locks.stream().filter(RLock::isHeldByCurrentThread).forEach(RLock::unlock);
        Map<String, Object> result = told(spent);
        result.put("from", from);
        result.put("until", until);
        result.put("lost", lost);
        return result;
    }

    /** For a thread that holds the lock until the command {@code leave}. */
    static Object take(Client client, Request request) {
        client.synchronizers().lock(request.field("object")).lock();
        return Map.of("at_ns", System.nanoTime());
    }

    static Object leave(Client client, Request request) {
        RLock lock = client.synchronizers().lock(request.field("object"));
        long at = System.nanoTime();
        lock.unlock();
        return Map.of("at_ns", at);
    }

    /** The whole life of a process that needs a lock once. */
    static void once(String address, String name) {
        Config config = new Config();
        config.useSingleServer().setAddress(address);
        RedissonClient redisson = Redisson.create(config);
        RLock lock = redisson.getLock(name);
        lock.lock();
        lock.unlock();
        redisson.shutdown();
    }

    private static Duration forTime(Request request) {
        return Duration.ofMillis(request.number("for_ms", Duration.ofDays(1).toMillis()));
    }

    private static Map<String, Object> told(Crew.Spent spent) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("elapsed_ns", spent.elapsedNs());
        result.put("cpu_ns", spent.cpuNs());
        return result;
    }
}
