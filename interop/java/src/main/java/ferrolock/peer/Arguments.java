package ferrolock.peer;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.stream.StreamSupport;

/** Arguments of methods, written in JSON. */
final class Arguments {
    private Arguments() {}

    /** The arguments as the parameters want them, if they do fit. */
    static Optional<Object[]> fit(Class<?>[] parameters, JsonNode args) {
        if (args.size() != parameters.length) {
            return Optional.empty();
        }
        Object[] values = new Object[parameters.length];
        for (int i = 0; i < parameters.length; i++) {
            Optional<Object> value = value(parameters[i], args.get(i));
            if (value.isEmpty()) {
                return Optional.empty();
            }
            values[i] = value.get();
        }
        return Optional.of(values);
    }

    private static Optional<Object> value(Class<?> type, JsonNode arg) {
        if (type == int.class && arg.canConvertToInt()) {
            return Optional.of(arg.asInt());
        }
        if (type == long.class && arg.canConvertToLong()) {
            return Optional.of(arg.asLong());
        }
        if (type == boolean.class && arg.isBoolean()) {
            return Optional.of(arg.asBoolean());
        }
        if (type == String.class && arg.isTextual()) {
            return Optional.of(arg.asText());
        }
        if (type.isEnum() && arg.isTextual()) {
            return constant(type, arg.asText());
        }
        if (type == Duration.class && arg.has("ms")) {
            return Optional.of(Duration.ofMillis(arg.get("ms").asLong()));
        }
        if ((type == List.class || type == Collection.class) && arg.isArray()) {
            return Optional.of(texts(arg));
        }
        return Optional.empty();
    }

    private static Optional<Object> constant(Class<?> type, String name) {
        return Arrays.stream(type.getEnumConstants())
                .filter(constant -> ((Enum<?>) constant).name().equals(name))
                .map(Object.class::cast)
                .findFirst();
    }

    private static List<String> texts(JsonNode list) {
        return StreamSupport.stream(list.spliterator(), false).map(JsonNode::asText).toList();
    }
}
