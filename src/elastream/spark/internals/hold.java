// Tasks that hold slots of one executor, so that Spark sends no other task there.
//
// A new executor would get a source of a Real-time query at once, and the query would wait seconds
// for its first class to load. Each task of the hold sleeps until its job is cancelled, at most for
// as long as is said. Where Spark runs one on another executor, because its own is gone, it ends.

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.BufferedRowIterator;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.unsafe.types.UTF8String;

public Object generate(Object[] references) { return new Hold(references); }

// References: the executor's id, and for how many milliseconds it is held at most.
static final class Hold extends Errand {
  public Hold(Object[] given) { super(given); }

  String run(Object env) throws Exception {
    Thread.sleep(((Number) references[1]).longValue());
    return "";
  }
}
