// Spark's private names, by reflection: those that the compiler cannot see, or must not.
static final class Names {
  static final String KEEPER = "elastream copies";

  // All threads of this JVM.
  static List threads() {
    ThreadGroup top = Thread.currentThread().getThreadGroup();
    while (top.getParent() != null) top = top.getParent();
    Thread[] found = new Thread[64 + 2 * top.activeCount()];
    int number = top.enumerate(found, true);
    while (number == found.length) {  // there may be more
      found = new Thread[2 * found.length];
      number = top.enumerate(found, true);
    }
    List threads = new ArrayList();
    for (int i = 0; i < number; i++) threads.add(found[i]);
    return threads;
  }

  // SparkEnv names a class that executors do not have: neither the compiler nor reflection may look
  // at all of it, but handles can be had of single methods.
  static Object sparkEnv() throws Exception {
    Class env = sparkEnvClass();
    MethodType type = MethodType.methodType(env);
    return invoked(MethodHandles.publicLookup().findStatic(env, "get", type), new Object[0]);
  }

  static String executorId(Object env) throws Exception {
    MethodType text = MethodType.methodType(String.class);
    MethodHandle handle = MethodHandles.publicLookup().findVirtual(sparkEnvClass(), "executorId", text);
    return (String) invoked(handle, new Object[] { env });
  }

  static Class sparkEnvClass() throws Exception {
    return Class.forName("org.apache.spark.SparkEnv", true, StateStore$.class.getClassLoader());
  }

  static Object invoked(MethodHandle handle, Object[] arguments) {
    try {
      return handle.invokeWithArguments(arguments);
    } catch (Throwable error) {
      throw new IllegalStateException(error);
    }
  }

  static Object coordinator(Object env) throws Exception {
    String name = "org.apache.spark.sql.execution.streaming.state.StateStoreCoordinatorRef$";
    Class module = Class.forName(name, true, StateStore$.class.getClassLoader());
    return call(module.getField("MODULE$").get(null), "forExecutor", env);
  }

  static StateStoreProviderId mail(String mailbox, String name) {
    return new StateStoreProviderId(new StateStoreId("elastream", 0L, 0, name), UUID.fromString(mailbox));
  }

  static scala.collection.mutable.HashMap loadedProviders() throws Exception {
    Field field = StateStore$.class.getDeclaredField("loadedProviders");
    field.setAccessible(true);
    return (scala.collection.mutable.HashMap) field.get(StateStore$.MODULE$);
  }

  // A private value of a store. In some versions Scala puts the name of the class before its name.
  static Object ofStore(RocksDB store, String name) throws Exception {
    Method[] methods = RocksDB.class.getDeclaredMethods();
    for (int i = 0; i < methods.length; i++) {
      if (methods[i].getName().endsWith(name) && methods[i].getParameterCount() == 0) {
        methods[i].setAccessible(true);
        return methods[i].invoke(store, new Object[0]);
      }
    }
    throw new NoSuchMethodException(name);
  }

  // Of a provider that is no RocksDB, the newest there could be: it is never replaced.
  static long loadedVersion(Object provider) {
    if (!(provider instanceof RocksDBStateStoreProvider)) return Long.MAX_VALUE;
    return ((RocksDBStateStoreProvider) provider).rocksDB().loadedVersion();
  }

  // What says who uses a provider, in Spark 4.1 and later.
  static Object stateMachine(StateStoreProvider provider) throws Exception {
    return call(
      provider,
      "org$apache$spark$sql$execution$streaming$state$RocksDBStateStoreProvider$$stateMachine");
  }

  // Whether a task uses a provider, in Spark 4.1 and later.
  static boolean isAcquired(StateStoreProvider provider) throws Exception {
    if (!(provider instanceof RocksDBStateStoreProvider)) return false;
    Object machine = stateMachine(provider);
    Method state = machine.getClass().getDeclaredMethod("state", new Class[0]);
    state.setAccessible(true);
    return state.invoke(machine, new Object[0]).getClass().getName().endsWith("$ACQUIRED$");
  }

  // The compiler takes the method of JsonNode's interface, which returns less.
  static JsonNode at(JsonNode node, String name) { return (JsonNode) node.get(name); }

  static JsonNode at(JsonNode node, int place) { return (JsonNode) node.get(place); }

  static Object nothing() { return scala.collection.immutable.Nil$.MODULE$; }

  static Object first(Object option) {
    return ((scala.Option) option).isDefined() ? ((scala.Option) option).get() : null;
  }

  static Object call(Object target, String name) throws Exception {
    return call(target, name, new Object[0]);
  }

  static Object call(Object target, String name, Object one) throws Exception {
    return call(target, name, new Object[] { one });
  }

  static Object call(Object target, String name, Object one, Object two) throws Exception {
    return call(target, name, new Object[] { one, two });
  }

  static Object call(Object target, String name, Object one, Object two, Object three, Object four) throws Exception {
    return call(target, name, new Object[] { one, two, three, four });
  }

  static Object call(Object target, String name, Object[] arguments) throws Exception {
    Method[] methods = target.getClass().getMethods();
    for (int i = 0; i < methods.length; i++) {
      if (methods[i].getName().equals(name) && methods[i].getParameterCount() == arguments.length) {
        methods[i].setAccessible(true);
        return methods[i].invoke(target, arguments);
      }
    }
    throw new NoSuchMethodException(target.getClass().getName() + "." + name);
  }

  // What went wrong, in a line.
  static String told(Throwable error) {
    Throwable cause = error;
    while (cause.getCause() != null && cause.getCause() != cause) cause = cause.getCause();
    String text = String.valueOf(cause.getMessage());
    int end = text.indexOf('\n');
    String line = cause.getClass().getSimpleName() + ": " + (end < 0 ? text : text.substring(0, end));
    return line.length() > 200 ? line.substring(0, 200) : line;
  }
}
