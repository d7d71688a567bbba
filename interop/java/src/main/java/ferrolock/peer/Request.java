package ferrolock.peer;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/** One command, by its fields. */
record Request(JsonNode fields) {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    static Request read(String line) throws JsonProcessingException {
        return new Request(MAPPER.readTree(line));
    }

    long id() {
        return fields.path("id").asLong();
    }

    /** The field; an absent one is a missing node. */
    JsonNode field(String name) {
        return fields.path(name);
    }

    boolean has(String name) {
        return fields.has(name);
    }

    String text(String name) {
        return required(name).asText();
    }

    long number(String name) {
        return required(name).asLong();
    }

    long number(String name, long otherwise) {
        return fields.path(name).asLong(otherwise);
    }

    private JsonNode required(String name) {
        if (!fields.hasNonNull(name)) {
            throw new IllegalArgumentException("the command has no field `" + name + "`: " + fields);
        }
        return fields.get(name);
    }
}
