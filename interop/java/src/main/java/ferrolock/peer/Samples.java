package ferrolock.peer;

import java.util.Arrays;
import java.util.List;

/** Times, stored one by one and unboxed, so that measuring costs little. */
final class Samples {
    private long[] values = new long[1024];
    private int count;

    void add(long value) {
        if (count == values.length) {
            values = Arrays.copyOf(values, 2 * count);
        }
        values[count++] = value;
    }

    /** All of them, the smallest first. */
    static long[] sorted(List<Samples> parts) {
        return parts.stream()
                .flatMapToLong(part -> Arrays.stream(part.values, 0, part.count))
                .sorted()
                .toArray();
    }

    /** The value below which this share of them lies; 0 if there is none. */
    static long quantile(long[] sorted, double share) {
        if (sorted.length == 0) {
            return 0;
        }
        return sorted[(int) Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
    }
}
