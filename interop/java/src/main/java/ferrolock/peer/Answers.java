package ferrolock.peer;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;

/** Runs what commands ask for and writes what became of it. */
final class Answers {
    private final ObjectMapper mapper = new ObjectMapper();
    private final PrintStream output;

    interface Task {
        Object run() throws Throwable;
    }

    Answers(PrintStream output) {
        this.output = output;
    }

    /** Runs the task on this thread and answers; if it returns a future, when that is complete. */
    void perform(Request request, Task task) {
        long thread = Thread.currentThread().getId();
        long began = System.nanoTime();
        try {
            Object value = task.run();
            if (value instanceof CompletionStage<?> future) {
                future.whenComplete((result, error) -> send(request, thread, began, result, error, false));
            } else {
                send(request, thread, began, value, null, Thread.interrupted());
            }
        } catch (Throwable error) {
            send(request, thread, began, null, error, Thread.interrupted());
        }
    }

    private void send(
            Request request, long thread, long began, Object result, Throwable error, boolean interrupted) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", request.id());
        if (error == null) {
            answer.put("result", plain(result));
        } else {
            answer.put("error", told(error));
        }
        answer.put("thread", thread);
        answer.put("began", began);
        answer.put("ended", System.nanoTime());
        if (interrupted) {
            answer.put("interrupted", true);
        }
        write(line(answer));
    }

    /** If JSON cannot say the result, the answer is why. */
    private String line(Map<String, Object> answer) {
        try {
            return mapper.writeValueAsString(answer);
        } catch (JsonProcessingException unspeakable) {
            answer.remove("result");
            answer.put("error", told(unspeakable));
        }
        try {
            return mapper.writeValueAsString(answer);
        } catch (JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private void write(String line) {
        synchronized (output) {
            output.println(line);
            output.flush();
        }
    }

    /** What JSON can say stays what it is. */
    private static Object plain(Object value) {
        boolean speakable = value == null
                || value instanceof Boolean
                || value instanceof Number
                || value instanceof List<?>
                || value instanceof Map<?, ?>;
        return speakable ? value : value.toString();
    }

    private static Map<String, Object> told(Throwable thrown) {
        Throwable error = thrown;
        while (isWrapper(error) && error.getCause() != null) {
            error = error.getCause();
        }
        List<String> causes = new ArrayList<>();
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            causes.add(cause.toString());
        }
        return Map.of(
                "class", error.getClass().getName(),
                "message", String.valueOf(error.getMessage()),
                "causes", causes);
    }

    private static boolean isWrapper(Throwable error) {
        return error instanceof InvocationTargetException
                || error instanceof ExecutionException
                || error instanceof CompletionException;
    }
}
