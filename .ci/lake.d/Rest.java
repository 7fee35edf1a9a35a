import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/** Iceberg's own REST catalog on loopback, over a database: PORT DATABASE USER WAREHOUSE. */
class Rest {
  public static void main(String[] args) throws Exception {
    var properties = Map.of(
        "catalog-impl", JdbcCatalog.class.getName(),
        "jdbc.schema-version", "V1",
        "uri", args[1],
        "jdbc.user", args[2],
        "jdbc.password", System.getenv("PGPASSWORD"),
        "warehouse", args[3],
        "io-impl", args[3].startsWith("s3:") ? "org.apache.iceberg.aws.s3.S3FileIO" : "org.apache.iceberg.hadoop.HadoopFileIO",
        "s3.path-style-access", "true");
    var catalog = CatalogUtil.buildIcebergCatalog("rest", properties, new Configuration());
    var context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    var server = new Server(new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(args[0])));
    server.setHandler(context);
    server.start();
    server.join();
  }
}
