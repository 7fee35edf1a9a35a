package command

import (
	"cmp"
	"net/url"
	"strings"

	"outlierd/sync/job"
)

// # Lakes
//
// Addresses are shown without passwords: the tools take those from the environment, as outlierd does.
// .ci/lake runs the lines.

// lakePlace is a lake as tools open it.
type lakePlace struct {
	kind      string   // kind of the catalog: sqlite, postgres or rest
	catalog   *url.URL // without a password; for sqlite only a path
	warehouse string   // the address of the files, or the name of the warehouse in a REST catalog
	namespace string
	endpoint  string // of a store other than Amazon's; else ""
	secret    string // the variable with the token or credential of a REST catalog; else ""
}

// lakeCatalog is the name of a SQL catalog in its database.
const lakeCatalog = "outlierd"

// The variables with what a REST catalog asks for; the first that is set counts last.
const (
	restToken      = "ICEBERG_REST_TOKEN"
	restCredential = "ICEBERG_REST_CREDENTIAL"
)

func lakePlaceOf(l *job.Lake, env func(string) (string, bool)) *lakePlace {
	p := &lakePlace{kind: "rest", warehouse: l.Warehouse, namespace: l.Namespace}
	u, err := url.Parse(l.Catalog)
	switch {
	case err != nil || u.Scheme == "":
		p.kind, u = "sqlite", &url.URL{Path: l.Catalog}
	case strings.HasPrefix(u.Scheme, "postgres"):
		p.kind = "postgres"
	default:
		for _, name := range []string{restCredential, restToken} {
			if value, _ := env(name); value != "" {
				p.secret = name
			}
		}
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery = ""
	p.catalog = u
	if p.kind != "rest" && strings.HasPrefix(p.warehouse, "/") {
		p.warehouse = (&url.URL{Scheme: "file", Path: p.warehouse}).String()
	}
	if p.inBucket() {
		general, _ := env("AWS_ENDPOINT_URL")
		own, _ := env("AWS_ENDPOINT_URL_S3")
		p.endpoint = cmp.Or(own, general)
	}
	return p
}

func (p *lakePlace) inBucket() bool { return strings.HasPrefix(p.warehouse, "s3://") }

// jdbc returns the address of a SQL catalog's database for Java.
func (p *lakePlace) jdbc() string {
	if p.kind == "sqlite" {
		return "jdbc:sqlite:" + p.catalog.Path
	}
	return "jdbc:postgresql://" + p.catalog.Host + p.catalog.Path
}

const bestOf = "select title, channel_title, z_score from %s order by z_score desc limit 10"

func (p *lakePlace) best(table string) string { return strings.Replace(bestOf, "%s", table, 1) }

// property is a name with a Python literal.
type property struct{ name, literal string }

func textProperty(name, value string) property { return property{name, pythonText(value)} }

// fromEnv returns a property whose value is read from the environment.
func fromEnv(name, of string) property { return property{name, "os.environ[" + pythonText(of) + "]"} }

// rest returns the settings of a REST catalog.
func (p *lakePlace) rest() []property {
	with := []property{textProperty("type", "rest"), textProperty("uri", p.catalog.String())}
	if p.warehouse != "" {
		with = append(with, textProperty("warehouse", p.warehouse))
	}
	switch p.secret {
	case restToken:
		with = append(with, fromEnv("token", p.secret))
	case restCredential:
		with = append(with, fromEnv("credential", p.secret))
	}
	return with
}

// pythonCatalog returns lines that open the catalog with pyiceberg.
func (p *lakePlace) pythonCatalog() string {
	var with []property
	switch p.kind {
	case "sqlite":
		with = []property{textProperty("type", "sql"), textProperty("uri", "sqlite:///"+p.catalog.Path)}
	case "postgres":
		address := *p.catalog
		address.Scheme = "postgresql+psycopg2"
		with = []property{textProperty("type", "sql"), textProperty("uri", address.String())}
	case "rest":
		with = p.rest()
	}
	if p.endpoint != "" {
		with = append(with, textProperty("s3.endpoint", p.endpoint))
	}
	lines := ""
	if p.secret != "" {
		lines = "import os\n"
	}
	lines += "from pyiceberg.catalog import load_catalog\n\ncatalog = load_catalog(" + pythonText(lakeCatalog) + ", **{"
	for _, s := range with {
		lines += "\n    " + pythonText(s.name) + ": " + s.literal + ","
	}
	return lines + "\n})\n"
}

func (p *lakePlace) table(name string) string {
	return "catalog.load_table(" + pythonText(p.namespace+"."+name) + ")"
}

func pyicebergLines(p *lakePlace) string {
	return p.pythonCatalog() +
		"outliers = " + p.table("outliers") + ".scan(selected_fields=(\"title\", \"z_score\")).to_arrow()"
}

func tryPyiceberg(p *lakePlace) []string {
	return python("import pyiceberg, pyarrow", p.pythonCatalog()+"print("+p.table("outliers")+".scan().count())")
}

func polarsLakeLines(p *lakePlace) string {
	return "import polars as pl\n" + p.pythonCatalog() + "history = pl.scan_iceberg(" +
		p.table("outliers_history") + ")"
}

func tryPolarsLake(p *lakePlace) []string {
	return python("import polars, pyiceberg, pyarrow", p.pythonCatalog()+
		"print(polars.scan_iceberg("+p.table("outliers")+").select(polars.len()).collect().item())")
}

// duckdbLake returns statements that open the lake with DuckDB, and the table outliers in a query. DuckDB
// reads REST catalogs itself, and finds the metadata of a table in a SQL catalog by a query.
func duckdbLake(p *lakePlace) (statements []string, outliers string) {
	if p.inBucket() {
		secret := "create secret (type s3, provider credential_chain"
		if u, err := url.Parse(p.endpoint); err == nil && u.Host != "" {
			secret += ", endpoint " + sqlText(u.Host) + ", url_style 'path'"
			if u.Scheme == "http" {
				secret += ", use_ssl false"
			}
		}
		statements = append(statements, secret+")")
	}
	if p.kind == "rest" {
		attach := "attach " + sqlText(p.warehouse) + " as lake (type iceberg, endpoint " + sqlText(p.catalog.String())
		switch p.secret {
		case "":
			attach += ", authorization_type 'none'"
		case restToken:
			attach += ", token getenv('ICEBERG_REST_TOKEN')"
		default:
			attach += ", client_id split_part(getenv('ICEBERG_REST_CREDENTIAL'), ':', 1)" +
				", client_secret split_part(getenv('ICEBERG_REST_CREDENTIAL'), ':', 2)"
		}
		return append(statements, attach+")"), "lake." + p.namespace + ".outliers"
	}
	address := p.catalog.String()
	if p.kind == "sqlite" {
		address = p.catalog.Path
	}
	find := "select metadata_location from catalog.iceberg_tables where catalog_name = " + sqlText(lakeCatalog) +
		" and table_namespace = " + sqlText(p.namespace) + " and table_name = 'outliers'"
	statements = append(statements, "attach "+sqlText(address)+" as catalog (type "+p.kind+", read_only)",
		"set variable outliers = ("+find+")")
	return statements, "iceberg_scan(getvariable('outliers'))"
}

func duckdbLakeLines(p *lakePlace) string {
	statements, outliers := duckdbLake(p)
	return "duckdb -c " + shellText(strings.Join(append(statements, p.best(outliers)), ";\n"))
}

func tryDuckDBLake(p *lakePlace) []string {
	statements, outliers := duckdbLake(p)
	count := append(statements, "select count(*) from "+outliers)
	return []string{"duckdb", "-noheader", "-list", "-c", strings.Join(count, "; ")}
}

// The versions of what Spark loads from Maven Central, which go with PySpark 4.1.
const (
	sparkIceberg = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
	sparkBucket  = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
	jdbcPostgres = "org.postgresql:postgresql:42.7.8"
	jdbcSQLite   = "org.xerial:sqlite-jdbc:3.50.3.0"
)

func sparkLines(p *lakePlace) string {
	packages := sparkIceberg
	with := []property{
		textProperty("type", "jdbc"), textProperty("uri", p.jdbc()), textProperty("jdbc.schema-version", "V1"),
		textProperty("warehouse", p.warehouse),
	}
	switch p.kind {
	case "sqlite":
		packages += "," + jdbcSQLite
	case "postgres":
		packages += "," + jdbcPostgres
		with = append(with, textProperty("jdbc.user", p.catalog.User.Username()),
			fromEnv("jdbc.password", "PGPASSWORD"))
	case "rest":
		with = p.rest()
	}
	if p.inBucket() {
		packages += "," + sparkBucket
		with = append(with, textProperty("io-impl", "org.apache.iceberg.aws.s3.S3FileIO"))
	}
	if p.endpoint != "" {
		with = append(with, textProperty("s3.endpoint", p.endpoint), textProperty("s3.path-style-access", "true"))
	}
	lines := "import os\nfrom pyspark.sql import SparkSession\n\nspark = (\n    SparkSession.builder" +
		"\n    .config(\"spark.jars.packages\", " + pythonText(packages) + ")" +
		"\n    .config(\"spark.sql.catalog." + lakeCatalog + "\", \"org.apache.iceberg.spark.SparkCatalog\")"
	for _, s := range with {
		lines += "\n    .config(" + pythonText("spark.sql.catalog."+lakeCatalog+"."+s.name) + ", " + s.literal + ")"
	}
	return lines + "\n    .getOrCreate()\n)\nspark.sql(" +
		pythonText(p.best(lakeCatalog+"."+p.namespace+".outliers")) + ").show()"
}

func trinoLines(p *lakePlace) string {
	lines := []string{"# etc/catalog/" + lakeCatalog + ".properties", "connector.name=iceberg"}
	switch p.kind {
	case "rest":
		lines = append(lines, "iceberg.catalog.type=rest", "iceberg.rest-catalog.uri="+p.catalog.String())
		if p.warehouse != "" {
			lines = append(lines, "iceberg.rest-catalog.warehouse="+p.warehouse)
		}
		switch p.secret {
		case restToken:
			lines = append(lines, "iceberg.rest-catalog.security=OAUTH2",
				"iceberg.rest-catalog.oauth2.token=${ENV:"+restToken+"}")
		case restCredential:
			lines = append(lines, "iceberg.rest-catalog.security=OAUTH2",
				"iceberg.rest-catalog.oauth2.credential=${ENV:"+restCredential+"}")
		}
	default:
		driver := "org.postgresql.Driver"
		if p.kind == "sqlite" {
			driver = "org.sqlite.JDBC"
			lines = append(lines, "# Trino has no driver for SQLite: put "+jdbcSQLite+" into plugin/iceberg")
		}
		lines = append(lines, "iceberg.catalog.type=jdbc", "iceberg.jdbc-catalog.catalog-name="+lakeCatalog,
			"iceberg.jdbc-catalog.driver-class="+driver, "iceberg.jdbc-catalog.connection-url="+p.jdbc(),
			"iceberg.jdbc-catalog.default-warehouse-dir="+p.warehouse)
		if p.kind == "postgres" {
			lines = append(lines, "iceberg.jdbc-catalog.connection-user="+p.catalog.User.Username(),
				"iceberg.jdbc-catalog.connection-password=${ENV:PGPASSWORD}")
		}
	}
	switch {
	case !p.inBucket():
		lines = append(lines, "fs.hadoop.enabled=true")
	case p.endpoint != "":
		lines = append(lines, "fs.native-s3.enabled=true", "s3.region=${ENV:AWS_REGION}",
			"s3.endpoint="+p.endpoint, "s3.path-style-access=true")
	default:
		lines = append(lines, "fs.native-s3.enabled=true", "s3.region=${ENV:AWS_REGION}")
	}
	return strings.Join(append(lines, "", "trino --execute "+
		shellText(p.best(lakeCatalog+"."+p.namespace+".outliers"))), "\n")
}
