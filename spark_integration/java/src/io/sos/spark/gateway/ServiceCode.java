package io.sos.spark.gateway;

/** Why the service says no, and what a client does about it, as PROTOCOL.md has it. */
public enum ServiceCode {
    UNKNOWN(0, Again.NO),
    NOT_FOUND(1, Again.NO),
    ALREADY_EXISTS(2, Again.NO),
    IS_DIRECTORY(3, Again.NO),
    NOT_DIRECTORY(4, Again.NO),
    NOT_EMPTY(5, Again.NO),
    BAD_PATH(6, Again.NO),
    BAD_REQUEST(7, Again.NO),
    TOO_LARGE(8, Again.NO),
    OUT_OF_RETENTION(9, Again.NO),
    VOLUME_NOT_FOUND(10, Again.ELSEWHERE),
    VOLUME_EXISTS(11, Again.NO),
    CHANGED(12, Again.NO),
    FENCED(20, Again.NO),
    EXPIRED(21, Again.NO),
    NOT_OWNER(22, Again.ELSEWHERE),
    OUTCOME_UNKNOWN(30, Again.YES),
    UNAVAILABLE(31, Again.YES),
    SHUTTING_DOWN(32, Again.YES),
    LOCKED(33, Again.YES),
    NO_SPACE(34, Again.NO),
    DAMAGED(40, Again.NO),
    LOST(41, Again.NO),
    TOO_NEW(42, Again.NO),
    VERSION(50, Again.NO),
    AUTH(51, Again.NO),
    DENIED(52, Again.NO),
    PROTOCOL(53, Again.NO),
    UNSUPPORTED(54, Again.NO),
    LIMIT(55, Again.YES),
    TOO_SLOW(56, Again.YES);

    /** Whether the same request, with the same operation id, is sent again until the deadline. */
    enum Again {
        NO,
        /** Here or, if there is another one, there: what is wrong may be wrong with this service alone. */
        YES,
        ELSEWHERE
    }

    private final int number;
    private final Again again;

    ServiceCode(int number, Again again) {
        this.number = number;
        this.again = again;
    }

    Again again() {
        return again;
    }

    /** Whether the service closes the connection after it. */
    boolean endsConnection() {
        return switch (this) {
            case SHUTTING_DOWN, VERSION, AUTH, PROTOCOL, LIMIT, TOO_SLOW -> true;
            default -> false;
        };
    }

    /** Whether it is about the connection and who is there: the request was not looked at. */
    boolean isOfConversation() {
        return number >= VERSION.number || this == UNKNOWN;
    }

    /** A code that is not in the table is final. */
    static ServiceCode of(int number) {
        for (ServiceCode code : values()) {
            if (code.number == number) {
                return code;
            }
        }
        return UNKNOWN;
    }
}
