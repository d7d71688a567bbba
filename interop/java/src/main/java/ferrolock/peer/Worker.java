package ferrolock.peer;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A thread with a name, which runs what it is given, in order, until it is ended. */
final class Worker {
    private final BlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();
    private final Thread thread;
    private volatile boolean stopsLoop;
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

    /** Ends the thread after what it was given so far; {@code last} is the last that it does. */
    void end(Runnable last) {
        tasks.add(() -> {
            ended = true;
            last.run();
        });
    }

    /** Interrupts what the thread does, or, if it is idle, what it does next. */
    Object interrupt() {
        thread.interrupt();
        return null;
    }

    Object stopLoop() {
        stopsLoop = true;
        return null;
    }

    /** Whether a loop was told to stop; asking forgets it. For the thread itself. */
    boolean takeStop() {
        boolean told = stopsLoop;
        stopsLoop = false;
        return told;
    }

    private void run() {
        while (!ended) {
            next().run();
        }
    }

    /** The next task; an interrupt while there is none stays for it. */
    private Runnable next() {
        boolean interrupted = false;
        while (true) {
            try {
                Runnable task = tasks.take();
                if (interrupted) {
                    thread.interrupt();
                }
                return task;
            } catch (InterruptedException idle) {
                interrupted = true;
            }
        }
    }
}
