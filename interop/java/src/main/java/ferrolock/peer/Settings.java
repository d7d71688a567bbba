package ferrolock.peer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;

/** Settings of Redisson by their names, so that each version has those that it has. */
final class Settings {
    private Settings() {}

    /** Calls, for each field, the setter of that name: {@code threads} is {@code setThreads}. */
    static void apply(Object config, JsonNode fields) {
        fields.properties().forEach(field -> {
            String name = field.getKey();
            String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
            JsonNode args = JsonNodeFactory.instance.arrayNode().add(field.getValue());
            try {
                Calls.invoke(config, config.getClass(), setter, args);
            } catch (ReflectiveOperationException failed) {
                throw new IllegalArgumentException("the setting `" + name + "` is refused", failed);
            }
        });
    }
}
