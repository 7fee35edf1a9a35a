//go:build !azure

package job

const hasAzure = false // the program cannot use buckets at az://; see the build tag azure
