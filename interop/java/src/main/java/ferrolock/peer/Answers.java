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

/** Executes commands and writes their answers. */
final class Answers {
    private final ObjectMapper mapper = new ObjectMapper();
    private final PrintStream output;

    interface Task {
        Object run() throws Throwable;
    }

    Answers(PrintStream output) {
        this.output = output;
    }

    /** Runs the task on this thread and answers; if the task returns a future, answers when that is complete. */
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

    /** If the result cannot be written as JSON, the answer is the reason. */
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

    /** A value that can be written as JSON is not changed. */
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
