package ferrolock.peer;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.StreamSupport;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The locks, semaphores and latches of a client, by their descriptions in commands. */
final class Synchronizers {
    /** By reflection, because some versions of Redisson lack some of them. */
    private static final Map<String, String> FACTORIES = Map.of(
            "lock", "getLock",
            "fair", "getFairLock",
            "fenced", "getFencedLock",
            "spin", "getSpinLock",
            "non-reentrant", "getNonReentrantLock",
            "non-reentrant-fair", "getNonReentrantFairLock",
            "semaphore", "getSemaphore",
            "permits", "getPermitExpirableSemaphore",
            "latch", "getCountDownLatch");

    /** An object of Redisson, and the interface through which it is used. */
    record Synchronizer(Object instance, Class<?> type) {}

    private final RedissonClient redisson;
    /** The members of several locks may be those of other clients. */
    private final Clients clients;
    /** An instance remembers its last lease, so which calls share one matters. */
    private final Map<JsonNode, Synchronizer> shared = new ConcurrentHashMap<>();

    Synchronizers(RedissonClient redisson, Clients clients) {
        this.redisson = redisson;
        this.clients = clients;
    }

    Synchronizer get(JsonNode object) {
        if (object.path("fresh").asBoolean()) {
            return create(object);
        }
        return shared.computeIfAbsent(object, this::create);
    }

    RLock lock(JsonNode object) {
        return (RLock) get(object).instance();
    }

    private Synchronizer create(JsonNode object) {
        String kind = object.path("kind").asText();
        String name = object.path("name").asText();
        return switch (kind) {
            case "read" -> new Synchronizer(redisson.getReadWriteLock(name).readLock(), RLock.class);
            case "write" -> new Synchronizer(redisson.getReadWriteLock(name).writeLock(), RLock.class);
            case "multi" -> new Synchronizer(redisson.getMultiLock(members(object)), RLock.class);
            case "red" -> new Synchronizer(red(object), RLock.class);
            default -> made(kind, name);
        };
    }

    @SuppressWarnings("deprecation")
    private RLock red(JsonNode object) {
        return new RedissonRedLock(members(object));
    }

    private RLock[] members(JsonNode object) {
        return StreamSupport.stream(object.path("locks").spliterator(), false)
                .map(member -> (RLock) clientOf(member).create(member).instance())
                .toArray(RLock[]::new);
    }

    private Synchronizers clientOf(JsonNode member) {
        JsonNode client = member.path("client");
        return client.isMissingNode() ? this : clients.get(client.asText()).synchronizers();
    }

    private Synchronizer made(String kind, String name) {
        String factory = FACTORIES.get(kind);
        if (factory == null) {
            throw new IllegalArgumentException("no such kind: `" + kind + "`");
        }
        try {
            Method method = RedissonClient.class.getMethod(factory, String.class);
            return new Synchronizer(method.invoke(redisson, name), method.getReturnType());
        } catch (NoSuchMethodException missing) {
            throw new NotInThisVersion("RedissonClient." + factory);
        } catch (ReflectiveOperationException failed) {
            throw new IllegalStateException(failed);
        }
    }
}
