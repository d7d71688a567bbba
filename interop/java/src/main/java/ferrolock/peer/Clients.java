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
        Client client = new Client(Redisson.create(config));
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
        Client client = clients.get(request.text("client"));
        if (client == null) {
            throw new IllegalArgumentException("no such client: " + request.text("client"));
        }
        return client;
    }
}
