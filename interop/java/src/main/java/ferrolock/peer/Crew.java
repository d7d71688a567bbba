package ferrolock.peer;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;

/** Threads that begin together, and what they cost until the last of them is done. */
final class Crew {
    interface Work {
        /** Goes on until {@code deadline}, a time of {@link System#nanoTime}, at the latest. */
        void run(int worker, long deadline) throws Exception;
    }

    /** The processor time is that of the whole process: a client works on threads of its own, too. */
    record Spent(long elapsedNs, long cpuNs) {}

    private final int workers;
    private final Duration time;

    Crew(int workers, Duration time) {
        this.workers = workers;
        this.time = time;
    }

    /** Returns when all are done; throws what the first of them threw. */
    Spent run(Work work) throws InterruptedException {
        CountDownLatch ready = new CountDownLatch(workers);
        CountDownLatch begin = new CountDownLatch(1);
        AtomicReference<Exception> failed = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < workers; i++) {
            int worker = i;
            Thread thread = new Thread(() -> {
                try {
                    ready.countDown();
                    begin.await();
                    work.run(worker, System.nanoTime() + time.toNanos());
                } catch (Exception error) {
                    failed.compareAndSet(null, error);
                }
            });
            thread.start();
            threads.add(thread);
        }
        ready.await();
        long began = System.nanoTime();
        long cpuBefore = cpuNs();
        begin.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        Spent spent = new Spent(System.nanoTime() - began, cpuNs() - cpuBefore);
        if (failed.get() != null) {
            throw new IllegalStateException("a worker failed: " + failed.get(), failed.get());
        }
        return spent;
    }

    private static long cpuNs() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
