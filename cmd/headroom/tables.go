package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/pipeline/onaws"
)

func (a *app) tablesCommand() *cobra.Command {
	var jobs string
	create := &cobra.Command{
		Use:   "create --store dynamodb:TABLE",
		Short: "Create the table of subjects and the ledger, unless they exist",
		Long: `Create the table of subjects and its ledger, both billed by request, and wait until they
are ready. A table that exists already is left as it is. Other stores need no tables.

With --jobs, also create the pipeline's table of jobs, in the same region.`,
		Example: `  headroom tables create --store 'dynamodb:quota?region=eu-central-1'
  headroom tables create --store 'dynamodb:quota?endpoint=http://127.0.0.1:8000&region=local'
  headroom tables create --store 'dynamodb:users?region=eu-central-1' --jobs jobs`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.createTables(cmd.Context(), jobs) },
	}
	create.Flags().StringVar(&jobs, "jobs", "", "also create a table of jobs with this name")
	return group("tables", "Create the tables of a DynamoDB store", create)
}

// createTables creates the tables of the store, and a table of jobs if jobs is not "".
func (a *app) createTables(ctx context.Context, jobs string) (err error) {
	n, err := a.storeName()
	if err != nil {
		return err
	}
	if n.kind != "dynamodb" {
		return usageError("store %s needs no tables; give a DynamoDB table with --store dynamodb:TABLE", n.describe())
	}
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	store, err := dynamostore.Open(ctx, n.options(cfg, a.logger()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.CreateTables(ctx); err != nil {
		return err
	}
	if jobs != "" {
		sdk, err := (&awsFlags{region: n.region, endpoint: n.endpoint}).load(ctx)
		if err != nil {
			return err
		}
		table := onaws.Jobs{Client: dynamodb.NewFromConfig(sdk), Table: jobs}
		if err := table.CreateTable(ctx); err != nil {
			return err
		}
	}
	if a.json {
		a.printJSON(map[string]any{"store": n.describe(), "ready": true})
		return nil
	}
	fmt.Fprintf(a.stdout, "%s is ready: its table and its ledger exist\n", n.describe())
	return nil
}
