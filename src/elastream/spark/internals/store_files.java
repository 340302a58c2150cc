// Where stores have their files, on the local disk and in storage.

// Snapshots in storage, by the names that they have there: 12.zip, 12_<id>.zip.
static final class Snapshots {
  static String name(scala.Tuple2 key) {
    Object id = Names.first(key._2());
    return id == null ? key._1() + ".zip" : key._1() + "_" + id + ".zip";
  }

  static long version(String name) { return Long.parseLong(name.split("[_.]")[0]); }

  static long newest(Set names) {
    long newest = 0;
    Iterator all = names.iterator();
    while (all.hasNext()) newest = Math.max(newest, version((String) all.next()));
    return newest;
  }

  static Set listed(Path root, Configuration hadoop) throws java.io.IOException {
    Set names = new HashSet();
    FileStatus[] files = root.getFileSystem(hadoop).listStatus(root);
    for (int i = 0; i < files.length; i++) {
      String name = files[i].getPath().getName();
      if (name.endsWith(".zip") && !name.startsWith(".")) names.add(name);
    }
    return names;
  }
}

static final class Disk {
  private static final long SPARE_BYTES = 64L << 20;  // that stay free

  static void require(File folder, long bytes) {
    if (folder.getUsableSpace() < bytes + SPARE_BYTES) {
      throw new IllegalStateException("no room on its disk for " + bytes + " bytes");
    }
  }

  static void empty(File folder) {
    File[] files = folder.listFiles();
    for (int i = 0; files != null && i < files.length; i++) files[i].delete();
  }

  static void delete(File folder) {
    empty(folder);
    folder.delete();
  }
}

// Private fields, wherever up the classes they are; Scala prefixes the names of some.
static final class Fields {
  // Where a store has its files.
  static File folder(RocksDB store) throws Exception { return (File) get(store, "localRootDir"); }

  static Object get(Object target, String name) throws Exception { return field(target, name).get(target); }

  static Field field(Object target, String name) throws Exception {
    for (Class at = target.getClass(); at != null; at = at.getSuperclass()) {
      Field[] fields = at.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (!fields[i].getName().equals(name) && !fields[i].getName().endsWith("$$" + name)) continue;
        fields[i].setAccessible(true);
        return fields[i];
      }
    }
    throw new NoSuchFieldException(target.getClass().getName() + "." + name);
  }
}
