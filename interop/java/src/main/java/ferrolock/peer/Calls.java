package ferrolock.peer;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Any method of an object, by its name and arguments. */
final class Calls {
    private Calls() {}

    static Object call(Synchronizers synchronizers, Request request) throws ReflectiveOperationException {
        Synchronizers.Synchronizer object = synchronizers.get(request.field("object"));
        return invoke(object.instance(), object.type(), request.text("method"), request.field("args"));
    }

    /** Calls the one method of {@code type} that has this name and takes these arguments. */
    static Object invoke(Object instance, Class<?> type, String name, JsonNode args)
            throws ReflectiveOperationException {
        // By parameters: an interface shows a method once more for each interface that it inherits it from.
        Map<List<Class<?>>, Fit> fits = new LinkedHashMap<>();
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name)) {
                Optional<Object[]> values = Arguments.fit(method.getParameterTypes(), args);
                values.ifPresent(fit -> fits.putIfAbsent(List.of(method.getParameterTypes()), new Fit(method, fit)));
            }
        }
        String told = type.getSimpleName() + "." + name + args;
        return switch (fits.size()) {
            case 0 -> throw new NotInThisVersion(told);
            case 1 -> fits.values().iterator().next().invoke(instance);
            default -> throw new IllegalArgumentException(told + " fits several methods: " + fits.keySet());
        };
    }

    private record Fit(Method method, Object[] values) {
        Object invoke(Object instance) throws ReflectiveOperationException {
            return method.invoke(instance, values);
        }
    }
}
