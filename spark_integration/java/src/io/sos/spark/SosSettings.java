package io.sos.spark;

import io.sos.spark.gateway.Peer;
import io.sos.spark.gateway.ServiceAddress;
import io.sos.spark.gateway.ServiceSettings;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;

/** The settings fs.sos.* of a Hadoop configuration (spark.hadoop.fs.sos.* in Spark's). The names are part of the interface. */
public final class SosSettings {
    static final String SCHEME = "sos";
    /** HOST:PORT of the journal service, several between commas. */
    private static final String SERVICE = "fs.sos.service";
    /** 64 hex digits. Spark redacts settings with this word in their name. */
    private static final String TOKEN = "fs.sos.token";
    /** The same, in a file; for those who keep secrets out of settings. */
    private static final String TOKEN_FILE = "fs.sos.token.file";
    /** true: TLS, trusting the JVM's authorities or those of the two settings below, each of which switches TLS on, too. */
    private static final String TLS = "fs.sos.tls";
    /** Certificates to trust, as a PEM file that is on every host, or as PEM text. */
    private static final String AUTHORITIES_FILE = "fs.sos.tls.authorities.file";
    private static final String AUTHORITIES = "fs.sos.tls.authorities";
    /** true: the token may go to other hosts without TLS. */
    private static final String INSECURE = "fs.sos.insecure";
    /** How long an operation is tried; longer than the service waits for a quorum (60 s), whose outcome must be seen. */
    private static final String DEADLINE_SECONDS = "fs.sos.deadline.seconds";
    private static final int DEADLINE_SECONDS_DEFAULT = 120;
    /** Where files larger than 1 MiB wait for their close(); the JVM's temporary directory unless told otherwise. */
    private static final String BUFFER_DIRECTORY = "fs.sos.buffer.dir";
    /** HOST:PORT of the relay, for sinks that are not told by an option. */
    private static final String RELAY = "fs.sos.relay";
    /** The ingest volume and the HOST:PORT of its listener, for sources that are not told by options. */
    private static final String INGEST_VOLUME = "fs.sos.ingest.volume";

    private static final String INGEST_SERVICE = "fs.sos.ingest.service";

    /** All of them; which of them a session has set for itself is not in the context's configuration. */
    static final List<String> KEYS = List.of(SERVICE, TOKEN, TOKEN_FILE, TLS, AUTHORITIES_FILE, AUTHORITIES, INSECURE,
            DEADLINE_SECONDS, BUFFER_DIRECTORY, RELAY, INGEST_VOLUME, INGEST_SERVICE);

    private SosSettings() {}

    static ServiceSettings of(Configuration configuration) throws IOException {
        String service = configuration.getTrimmed(SERVICE);
        if (service == null) {
            throw new IOException("sos:// needs the setting " + SERVICE + " (spark.hadoop." + SERVICE
                    + " in Spark's): the journal service's HOST:PORT");
        }
        return of(configuration, service, Peer.JOURNAL);
    }

    /** For another program that serves files at these addresses, with the same token, TLS and deadline. */
    public static ServiceSettings of(Configuration configuration, String addresses, Peer peer) throws IOException {
        String authorities = textOrFile(configuration, AUTHORITIES, AUTHORITIES_FILE);
        String token = textOrFile(configuration, TOKEN, TOKEN_FILE);
        boolean tls = configuration.getBoolean(TLS, authorities != null);
        long deadline = configuration.getInt(DEADLINE_SECONDS, DEADLINE_SECONDS_DEFAULT);
        try {
            return new ServiceSettings(
                    ServiceAddress.parseList(addresses),
                    token,
                    tls,
                    authorities,
                    configuration.getBoolean(INSECURE, false),
                    TimeUnit.SECONDS.toMillis(deadline),
                    peer);
        } catch (IllegalArgumentException e) {
            throw new IOException("the settings fs.sos.* are not in order: " + e.getMessage(), e);
        }
    }

    static Path bufferDirectory(Configuration configuration) {
        return bufferDirectory(toldBufferDirectory(configuration));
    }

    /** The setting alone, for those who go on in another JVM, whose temporary directory is another one; or null. */
    public static String toldBufferDirectory(Configuration configuration) {
        return configuration.getTrimmed(BUFFER_DIRECTORY);
    }

    public static Path bufferDirectory(String told) {
        return Path.of(told != null ? told : System.getProperty("java.io.tmpdir"));
    }

    /** Null if nobody has set it. */
    public static String relay(Configuration configuration) {
        return configuration.getTrimmed(RELAY);
    }

    /** Null if nobody has set it. */
    public static String ingestVolume(Configuration configuration) {
        return configuration.getTrimmed(INGEST_VOLUME);
    }

    /** Where listeners serve their files: what is set for them, or else the service of the session; null without either. */
    public static String ingestService(Configuration configuration) {
        return configuration.getTrimmed(INGEST_SERVICE, configuration.getTrimmed(SERVICE));
    }

    private static String textOrFile(Configuration configuration, String key, String fileKey) throws IOException {
        String text = configuration.get(key);
        String file = configuration.getTrimmed(fileKey);
        if (text == null && file != null) {
            return contents(fileKey, file);
        }
        return text == null || text.isBlank() ? null : text.strip();
    }

    /** An empty file is not a way to say "none": without its authorities a token would be sent in plain text. */
    private static String contents(String fileKey, String file) throws IOException {
        String text;
        try {
            text = Files.readString(Path.of(file), StandardCharsets.ISO_8859_1).strip();
        } catch (IOException e) {
            throw new IOException("the file of the setting " + fileKey + " cannot be read: " + e, e);
        }
        if (text.isEmpty()) {
            throw new IOException("the file of the setting " + fileKey + ", " + file + ", is empty: no "
                    + (fileKey.equals(TOKEN_FILE) ? "token" : "certificate") + " in it");
        }
        return text;
    }
}
