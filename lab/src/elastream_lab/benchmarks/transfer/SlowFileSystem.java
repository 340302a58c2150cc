// A local file system that reads as slow storage does: opening and listing wait, and each stream has a
// pace. Compiled by Spark's own compiler, which knows no generic types.
import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

public class SlowFileSystem extends RawLocalFileSystem {
  public URI getUri() { return URI.create("slow:///"); }

  public String getScheme() { return "slow"; }

  public FileStatus[] listStatus(Path path) throws IOException {
    SlowStream.sleep(getConf().getInt("slow.open.ms", 0));
    return super.listStatus(path);
  }

  public FSDataInputStream open(Path path, int buffer) throws IOException {
    SlowStream.sleep(getConf().getInt("slow.open.ms", 0));
    return new FSDataInputStream(new SlowStream(super.open(path, buffer), getConf().getDouble("slow.mb.per.s", 1e6)));
  }
}

class SlowStream extends FSInputStream {
  private final FSDataInputStream inner;
  private final double bytesPerMs;
  private double owedMs = 0;

  public SlowStream(FSDataInputStream given, double mbPerS) {
    inner = given;
    bytesPerMs = mbPerS * 1e3;
  }

  static void sleep(long ms) throws IOException {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new java.io.InterruptedIOException("interrupted");
    }
  }

  private int paid(int bytes) throws IOException {
    owedMs = owedMs + Math.max(0, bytes) / bytesPerMs;
    if (owedMs >= 5) {
      long whole = (long) owedMs;
      sleep(whole);
      owedMs = owedMs - whole;
    }
    return bytes;
  }

  public int read() throws IOException {
    int one = inner.read();
    paid(1);
    return one;
  }

  public int read(byte[] into, int from, int most) throws IOException { return paid(inner.read(into, from, most)); }

  public void seek(long to) throws IOException { inner.seek(to); }

  public long getPos() throws IOException { return inner.getPos(); }

  public boolean seekToNewSource(long target) { return false; }

  public void close() throws IOException { inner.close(); }
}
