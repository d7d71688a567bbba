package ferrolock.peer;

/** What was asked for is not in the version of Redisson that this program was built with. */
final class NotInThisVersion extends RuntimeException {
    private static final long serialVersionUID = 1;

    NotInThisVersion(String what) {
        super(what + " is not in Redisson " + Version.OF_REDISSON);
    }
}
