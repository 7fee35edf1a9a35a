package main

import (
	"net/url"
	"strings"

	"outlierd/sync/job"
)

// # Lakes
//
// Addresses are shown without their passwords: the tools take these from the environment, as outlierd does.

// lakeCatalog is the name under which the tables of a lake stand in a SQL catalog.
const lakeCatalog = "outlierd"

// catalogOf is what kind of catalog a lake has: sqlite, postgres or rest; and its address, without a password.
func catalogOf(l *job.Lake) (kind string, u *url.URL) {
	u, err := url.Parse(l.Catalog)
	if err != nil || u.Scheme == "" {
		return "sqlite", &url.URL{Path: l.Catalog}
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery = ""
	if strings.HasPrefix(u.Scheme, "postgres") {
		return "postgres", u
	}
	return "rest", u
}

// warehouseOf is the address of a lake's files.
func warehouseOf(l *job.Lake) string {
	if strings.HasPrefix(l.Warehouse, "/") {
		return (&url.URL{Scheme: "file", Path: l.Warehouse}).String()
	}
	return l.Warehouse
}

// pyiceberg are lines that open a table with pyiceberg.
func pyiceberg(l *job.Lake, table string) string {
	kind, u := catalogOf(l)
	with := `type="sql", uri=` + pythonText("sqlite:///"+u.Path)
	switch kind {
	case "postgres":
		u.Scheme = "postgresql+psycopg2"
		with = `type="sql", uri=` + pythonText(u.String())
	case "rest":
		with = `type="rest", uri=` + pythonText(u.String())
	}
	if l.Warehouse != "" {
		with += ", warehouse=" + pythonText(warehouseOf(l))
	}
	return "from pyiceberg.catalog import load_catalog\n\n" +
		"catalog = load_catalog(" + pythonText(lakeCatalog) + ", " + with + ")\n" +
		"table = catalog.load_table(" + pythonText(l.Namespace+"."+table) + ")"
}

func pyicebergLines(l *job.Lake) string {
	return pyiceberg(l, "outliers") + "\ndf = table.scan(selected_fields=(\"video_id\", \"title\", \"z_score\")).to_pandas()"
}

func polarsLakeLines(l *job.Lake) string {
	return "import polars as pl\n" + pyiceberg(l, "outliers_history") +
		"\nhistory = pl.scan_iceberg(table).group_by(\"channel_title\").len().collect()"
}

// duckdbLakeLines open a table with DuckDB, which finds its metadata in the catalog's database.
func duckdbLakeLines(l *job.Lake) string {
	kind, u := catalogOf(l)
	secret := ""
	if strings.HasPrefix(l.Warehouse, "s3://") {
		secret = "create secret (type s3, provider credential_chain); "
	}
	query := "select title, channel_title, z_score from %s order by z_score desc limit 10"
	if kind == "rest" {
		return "duckdb -c " + shellText("load iceberg; "+secret+"attach "+sqlText(l.Warehouse)+" as lake (type iceberg, endpoint "+
			sqlText(u.String())+"); "+strings.Replace(query, "%s", "lake."+l.Namespace+".outliers", 1))
	}
	attach := sqlText(u.Path) + " as catalog (type sqlite, read_only)"
	if kind == "postgres" {
		attach = sqlText(u.String()) + " as catalog (type postgres, read_only)"
	}
	return "duckdb -c " + shellText("load iceberg; "+secret+"attach "+attach+"; set variable metadata = (select metadata_location "+
		"from catalog.iceberg_tables where table_namespace = "+sqlText(l.Namespace)+" and table_name = 'outliers'); "+
		strings.Replace(query, "%s", "iceberg_scan(getvariable('metadata'))", 1))
}

func sparkLines(l *job.Lake) string {
	kind, u := catalogOf(l)
	packages := "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
	conf := []string{"=org.apache.iceberg.spark.SparkCatalog"}
	switch kind {
	case "sqlite":
		packages += ",org.xerial:sqlite-jdbc:3.50.3.0"
		conf = append(conf, ".type=jdbc", ".uri=jdbc:sqlite:"+u.Path, ".jdbc.schema-version=V1")
	case "postgres":
		packages += ",org.postgresql:postgresql:42.7.8"
		conf = append(conf, ".type=jdbc", ".uri=jdbc:postgresql://"+u.Host+u.Path, ".jdbc.user="+u.User.Username(),
			`.jdbc.password=$PGPASSWORD`, ".jdbc.schema-version=V1")
	case "rest":
		conf = append(conf, ".type=rest", ".uri="+u.String())
	}
	if l.Warehouse != "" {
		conf = append(conf, ".warehouse="+warehouseOf(l))
	}
	if strings.HasPrefix(l.Warehouse, "s3://") {
		packages += ",org.apache.iceberg:iceberg-aws-bundle:1.12.0"
		conf = append(conf, ".io-impl=org.apache.iceberg.aws.s3.S3FileIO")
	}
	lines := "spark-sql --packages " + packages
	for _, c := range conf {
		word := shellText("spark.sql.catalog." + lakeCatalog + c)
		if strings.Contains(c, "$") {
			word = `"spark.sql.catalog.` + lakeCatalog + c + `"`
		}
		lines += " \\\n  --conf " + word
	}
	return lines + " \\\n  -e " + shellText("select title, z_score from "+lakeCatalog+"."+l.Namespace+".outliers order by z_score desc limit 10")
}

func trinoLines(l *job.Lake) string {
	kind, u := catalogOf(l)
	lines := []string{"# etc/catalog/" + lakeCatalog + ".properties", "connector.name=iceberg"}
	switch kind {
	case "rest":
		lines = append(lines, "iceberg.catalog.type=rest", "iceberg.rest-catalog.uri="+u.String())
		if l.Warehouse != "" {
			lines = append(lines, "iceberg.rest-catalog.warehouse="+l.Warehouse)
		}
	default:
		driver, address := "org.postgresql.Driver", "jdbc:postgresql://"+u.Host+u.Path
		if kind == "sqlite" {
			driver, address = "org.sqlite.JDBC", "jdbc:sqlite:"+u.Path
			lines = append(lines, "# Trino has no driver for SQLite: add sqlite-jdbc to plugin/iceberg, or use PostgreSQL")
		}
		lines = append(lines, "iceberg.catalog.type=jdbc", "iceberg.jdbc-catalog.catalog-name="+lakeCatalog,
			"iceberg.jdbc-catalog.driver-class="+driver, "iceberg.jdbc-catalog.connection-url="+address)
		if kind == "postgres" {
			lines = append(lines, "iceberg.jdbc-catalog.connection-user="+u.User.Username(), "iceberg.jdbc-catalog.connection-password=${ENV:PGPASSWORD}")
		}
		lines = append(lines, "iceberg.jdbc-catalog.schema-version=V1", "iceberg.jdbc-catalog.default-warehouse-dir="+warehouseOf(l))
	}
	if strings.HasPrefix(l.Warehouse, "s3://") {
		lines = append(lines, "fs.native-s3.enabled=true")
	} else {
		lines = append(lines, "fs.hadoop.enabled=true")
	}
	return strings.Join(append(lines, "",
		"trino --execute "+shellText("select title, z_score from "+lakeCatalog+"."+l.Namespace+".outliers order by z_score desc limit 10")), "\n")
}
