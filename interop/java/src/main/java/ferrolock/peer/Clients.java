package ferrolock.peer;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/** The clients of this process, by name. */
final class Clients {
    private final Map<String, Client> clients = new ConcurrentHashMap<>();

    Object open(Request request) {
        Config config = new Config();
        Settings.apply(config, request.field("config"));
        SingleServerConfig server = config.useSingleServer().setAddress(request.text("address"));
        Settings.apply(server, request.field("server"));
        Client client = new Client(Redisson.create(config), this);
        clients.put(request.text("client"), client);
        return client.redisson().getId();
    }

    Object close(Request request) {
        Client client = get(request);
        clients.remove(request.text("client"));
        client.close();
        return null;
    }

    Client get(Request request) {
        return get(request.text("client"));
    }

    Client get(String name) {
        Client client = clients.get(name);
        if (client == null) {
            throw new IllegalArgumentException("no such client: " + name);
        }
        return client;
    }
}
