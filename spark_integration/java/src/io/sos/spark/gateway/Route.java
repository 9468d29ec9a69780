package io.sos.spark.gateway;

import java.util.List;

/** Which service is asked next: the one that answered last, else the next in the list, or the one it named as owner. */
final class Route {
    private final List<ServiceAddress> addresses;
    private ServiceAddress current;
    private int position;

    Route(List<ServiceAddress> addresses) {
        this.addresses = addresses;
        this.current = addresses.get(0);
    }

    synchronized ServiceAddress current() {
        return current;
    }

    /** {@code failed} did not help; unless another thread has already turned away from it, try the next of the list. */
    synchronized void leave(ServiceAddress failed) {
        if (failed.equals(current)) {
            position = (position + 1) % addresses.size();
            current = addresses.get(position);
        }
    }

    /** {@code failed} says that {@code owner} has the volume, or (null) that it does not know who has. */
    synchronized void redirect(ServiceAddress failed, ServiceAddress owner) {
        if (owner == null) {
            leave(failed);
        } else if (failed.equals(current)) {
            current = owner;
        }
    }

    int size() {
        return addresses.size();
    }
}
