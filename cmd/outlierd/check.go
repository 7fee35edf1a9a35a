package main

import (
	"context"
	"fmt"

	"outlierd/sinks/duckdb"
	"outlierd/sync/job"
)

// checkSQL binds every SQL of every job against the tables as they are declared, all
// empty: what cannot be asked is a mistake of the file like any other, with its place,
// and is found before anything is spent.
func checkSQL(ctx context.Context, config *job.Config) error {
	var found job.Mistakes
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		for _, query := range spec.SQL() {
			if err := bindable(ctx, query); err != nil {
				found = append(found, config.Mistake(query.Line, query.Column, fmt.Sprintf("jobs.%s: %v", spec.Name, err),
					"`outlierd schema tables` lists the tables and their columns"))
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(found) > 0 {
		return found
	}
	return nil
}

// bindable says why a query cannot be asked, or has not the column that is wanted.
func bindable(ctx context.Context, query job.Query) error {
	fields, err := duckdb.Apart{Command: answerer}.Bind(ctx, query.SQL)
	if err == nil {
		_, err = duckdb.Column(fields, query.IDColumn)
	}
	return err
}

// sound loads the job file and checks it as far as that can be done without a state
// and a network, SQL included.
func sound(ctx context.Context, load func() (*job.Config, error)) (*job.Config, error) {
	config, err := load()
	if err != nil {
		return nil, err
	}
	return config, checkSQL(ctx, config)
}
