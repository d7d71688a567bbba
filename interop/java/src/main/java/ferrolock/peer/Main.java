package ferrolock.peer;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.BooleanSupplier;

/**
 * The real Redisson, controlled by commands: one JSON command a line on the standard input, one JSON answer a line on
 * the standard output, matched by {@code id}. Answers come in any order. At the end of the input the process halts and
 * leaves everything in Redis as it is.
 *
 * <p>Each named thread is a Java thread of its own, started by its first command and alive until the command
 * {@code end}. It runs its commands in order, while other threads run theirs. So a hold is {@code lock}, and later
 * {@code unlock} on the same thread.
 *
 * <pre>
 * do         fields                                          result
 * hello                                                      redisson, java, pid
 * open       client, address, config{}, server{}             the client's UUID; any setter of Config and
 *                                                            SingleServerConfig by its name without "set"
 * close      client                                          ends its threads and its connections
 * call       client, thread, object{}, method, args[]        what the method returns; of a future, when it is complete
 * loop       client, thread, object{}, counter{key|file},    done, longest_wait_ns; each round locks, reads the
 *            times and/or until, hold_ms                     counter, writes one more, unlocks
 * stop       client, thread                                  ends the loops given so far, the one that runs after its
 *                                                            round
 * interrupt  client, thread                                  interrupts what it does, or does next
 * end        client, thread                                  ends it after its commands
 * pairs, contend, holds, take, leave                         see Bench
 * halt                                                       none: the process is gone, without clean-up
 *
 * object     kind: lock, fair, read, write, fenced, spin, non-reentrant, non-reentrant-fair, semaphore, permits, latch
 *            name
 *            fresh: true for an instance of this command's own; else commands of a client share one
 *            kinds multi and red have, instead of a name, locks: a list of objects, of this client or of the client that
 *            they name
 * args       numbers, texts, true and false, lists of texts; the name of a constant for an enum such as TimeUnit;
 *            {"ms": n} for a Duration. They choose among the methods of one name.
 *
 * answer     id, result or error{class, message, causes[]}, thread (the Java thread's id), began, ended;
 *            interrupted: true if the thread was interrupted and the command did not say so
 * </pre>
 *
 * {@code began}, {@code ended} and {@code until} are nanoseconds of the monotonic clock of the system, which all
 * processes of a machine share: on Linux that is what {@link System#nanoTime} reads.
 */
final class Main {
    private final Answers answers;
    private final Clients clients = new Clients();

    private Main(PrintStream output) {
        this.answers = new Answers(output);
    }

    public static void main(String[] args) {
        if (args.length == 3 && args[0].equals("once")) {
            Bench.once(args[1], args[2]);
            return;
        }
        PrintStream dialogue =
                new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        // Nothing that a library prints may come between two answers.
        System.setOut(System.err);
        int status = 1;
        try {
            new Main(dialogue).obeyAll(System.in);
            status = 0;
        } catch (Throwable failed) {
            failed.printStackTrace();
        } finally {
            // In any case: other threads would keep alive a process that can no longer receive commands.
            Runtime.getRuntime().halt(status);
        }
    }

    private void obeyAll(InputStream commands) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(commands, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            obey(line);
        }
    }

    /** Never blocks: commands that may take long are handed to another thread. */
    private void obey(String line) {
        Request request;
        try {
            request = Request.read(line);
        } catch (JsonProcessingException unreadable) {
            System.err.println("not a command: " + line);
            return;
        }
        try {
            dispatch(request);
        } catch (Throwable refused) {
            answers.perform(request, () -> {
                throw refused;
            });
        }
    }

    private void dispatch(Request request) {
        switch (request.text("do")) {
            case "hello" -> answers.perform(request, Main::hello);
            case "open" -> aside(request, () -> clients.open(request));
            case "close" -> aside(request, () -> clients.close(request));
            case "call" -> onThread(request, client -> Calls.call(client.synchronizers(), request));
            case "loop" -> loop(request);
            case "stop" -> answers.perform(request, () -> worker(request).stopLoops());
            case "interrupt" -> answers.perform(request, () -> worker(request).interrupt());
            case "end" -> end(request);
            case "pairs" -> aside(request, () -> Bench.pairs(clients.get(request), request));
            case "contend" -> aside(request, () -> Bench.contend(clients.get(request), request));
            case "holds" -> aside(request, () -> Bench.holds(clients.get(request), request));
            case "take" -> onThread(request, client -> Bench.take(client, request));
            case "leave" -> onThread(request, client -> Bench.leave(client, request));
            case "halt" -> Runtime.getRuntime().halt(0);
            default -> throw new IllegalArgumentException("no such command: " + request.text("do"));
        }
    }

    private void loop(Request request) {
        BooleanSupplier stopped = worker(request).stopSince();
        onThread(request, client -> Loop.run(client, request, stopped));
    }

    private void end(Request request) {
        Runnable last = () -> answers.perform(request, () -> null);
        clients.get(request).endWorker(request.text("thread"), last);
    }

    private interface OnClient {
        Object run(Client client) throws Throwable;
    }

    private void onThread(Request request, OnClient task) {
        Client client = clients.get(request);
        worker(request).submit(() -> answers.perform(request, () -> task.run(client)));
    }

    private Worker worker(Request request) {
        return clients.get(request).worker(request.text("thread"));
    }

    private void aside(Request request, Answers.Task task) {
        new Thread(() -> answers.perform(request, task), request.text("do")).start();
    }

    private static Object hello() {
        return Map.of(
                "redisson", Version.OF_REDISSON,
                "java", Runtime.version().toString(),
                "pid", ProcessHandle.current().pid());
    }
}
