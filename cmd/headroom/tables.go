package main

import (
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
		Long: `Create the table of subjects and the ledger beside it, both billed by request, and wait until they can be used. A table that exists is left as it is. The other stores need no tables.

With --jobs the pipeline's table of jobs is created too, in the same region.`,
		Example: `  headroom tables create --store 'dynamodb:quota?region=eu-central-1'
  headroom tables create --store 'dynamodb:quota?endpoint=http://127.0.0.1:8000&region=local'
  headroom tables create --store 'dynamodb:users?region=eu-central-1' --jobs jobs`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			n, err := a.storeName()
			if err != nil {
				return err
			}
			if n.kind != "dynamodb" {
				return usageError("store %s needs no tables: name one with --store dynamodb:TABLE", n.describe())
			}
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			store, err := dynamostore.Open(cmd.Context(), n.options(cfg, a.logger()))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			if err := store.CreateTables(cmd.Context()); err != nil {
				return err
			}
			if jobs != "" {
				sdk, err := (&awsFlags{region: n.region, endpoint: n.endpoint}).load(cmd.Context())
				if err != nil {
					return err
				}
				if err := (&onaws.Jobs{Client: dynamodb.NewFromConfig(sdk), Table: jobs}).CreateTable(cmd.Context()); err != nil {
					return err
				}
			}
			if a.json {
				a.printJSON(map[string]any{"store": n.describe(), "ready": true})
				return nil
			}
			fmt.Fprintf(a.stdout, "%s is ready: its table and its ledger exist\n", n.describe())
			return nil
		},
	}
	create.Flags().StringVar(&jobs, "jobs", "", "name of a table of jobs to create too")
	return group("tables", "Create the tables of a DynamoDB store", create)
}
