// In the place of transfer.java and arrival.java where this Spark lacks what they need: the driver asks
// for no offer, and sends nothing that could arrive.

static final class Offers {
  public Offers(Keeper owner, String name) {}

  void start() {}

  void tell(ObjectNode told) {}
}

static final class Arrival {
  final long version = -1;
  final long bytes = 0;
  final long tookMs = 0;

  public Arrival(JsonNode from, File into, Keeper owner, String ofStore) {
    throw new IllegalStateException("this Spark loads state from storage alone");
  }

  scala.Option checkpointId() { return scala.Option.empty(); }

  void start() {}

  boolean ended() { return false; }

  void drop() {}
}

static final class Arriving {
  static CopiedProvider provider() { return new CopiedProvider(); }

  static void open(CopiedProvider provider, Arrival arrival) {}
}
