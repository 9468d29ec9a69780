package io.sos.spark.gateway;

/** Which program serves the files, and what to look at when none is reached. */
public enum Peer {
    JOURNAL("journal service", "is `sos-journal serve` running there, and are the settings fs.sos.service and fs.sos.tls as it needs"
            + " them?"),
    LISTENER("listener", "is `sos-connector listen` running there, and are the settings fs.sos.tls as it needs them?"),
    RELAY("relay", "is `sos-connector relay` running there, and are the settings fs.sos.tls as it needs them?");

    private final String title;
    private final String advice;

    Peer(String title, String advice) {
        this.title = title;
        this.advice = advice;
    }

    String title() {
        return title;
    }

    String unreached() {
        return "No " + title + " was reached: " + advice;
    }
}
