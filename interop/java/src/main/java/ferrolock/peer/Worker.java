package ferrolock.peer;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;

/** A thread with a name, which runs what it is given, in order, until it is ended. */
final class Worker {
    private final BlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();
    private final Thread thread;
    private final AtomicLong stops = new AtomicLong();
    private volatile boolean abandoned;
    /** Only for the thread itself. */
    private boolean ended;

    Worker(String name) {
        thread = new Thread(this::run, name);
        thread.setDaemon(true);
        thread.start();
    }

    void submit(Runnable task) {
        tasks.add(task);
    }

    /** Ends the thread after the tasks that it was given so far; {@code last} is its last task. */
    void end(Runnable last) {
        tasks.add(() -> {
            ended = true;
            last.run();
        });
    }

    /** Ends the thread now: interrupts its current task, and each task that it was given before this call. */
    void abandon() {
        abandoned = true;
        thread.interrupt();
        end(() -> {});
    }

    /** Waits until the thread has ended, but not beyond {@code untilNanos}. */
    void awaitEnd(long untilNanos) {
        long millis = (untilNanos - System.nanoTime()) / 1_000_000;
        try {
            thread.join(Math.max(1, millis));
        } catch (InterruptedException hurried) {
            Thread.currentThread().interrupt();
        }
    }

    /** Interrupts the current task of the thread or, if it is idle, its next task. */
    Object interrupt() {
        thread.interrupt();
        return null;
    }

    /** Ends the loops that the thread was given so far. */
    Object stopLoops() {
        stops.incrementAndGet();
        return null;
    }

    /** Whether {@link #stopLoops} was called after this call: for a loop that is given now, whenever it begins. */
    BooleanSupplier stopSince() {
        long before = stops.get();
        return () -> stops.get() != before;
    }

    private void run() {
        while (!ended) {
            next().run();
        }
    }

    /** The next task; an interrupt while the thread is idle is passed on to it. */
    private Runnable next() {
        boolean interrupted = false;
        while (true) {
            try {
                Runnable task = tasks.take();
                if (interrupted || abandoned) {
                    thread.interrupt();
                }
                return task;
            } catch (InterruptedException idle) {
                interrupted = true;
            }
        }
    }
}
