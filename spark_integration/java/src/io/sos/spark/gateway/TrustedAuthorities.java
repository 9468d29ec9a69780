package io.sos.spark.gateway;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

/** TLS that trusts the given certificates and no others, or, without any, those that the JVM trusts. */
final class TrustedAuthorities {
    private TrustedAuthorities() {}

    /** IOException when the certificates cannot be used: trying again would not help. */
    static SSLSocketFactory socketFactory(String authorities) throws IOException {
        if (authorities == null) {
            return (SSLSocketFactory) SSLSocketFactory.getDefault();
        }
        try {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            int count = 0;
            byte[] pem = authorities.getBytes(StandardCharsets.US_ASCII);
            for (Certificate certificate :
                    CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(pem))) {
                store.setCertificateEntry("authority-" + count++, certificate);
            }
            if (count == 0) {
                throw new IOException("there is no certificate among them");
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context.getSocketFactory();
        } catch (GeneralSecurityException | IOException e) {
            throw new IOException("the certificates to trust cannot be used: " + e.getMessage(), e);
        }
    }
}
