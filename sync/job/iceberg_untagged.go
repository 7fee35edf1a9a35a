//go:build !iceberg

package job

const hasIceberg = false // the program cannot use Iceberg tables; see the build tag iceberg
