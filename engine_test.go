package headroom_test

import (
	"errors"
	"testing"

	"github.com/lumcast/headroom"
)

func TestEngineChecksItsSettings(t *testing.T) {
	store := brokenStore{}
	for name, c := range map[string]struct {
		store   headroom.Store
		catalog *headroom.Catalog
		opts    headroom.Options
	}{
		"no store":                  {nil, headroom.DefaultCatalog(), headroom.Options{}},
		"no catalog":                {store, nil, headroom.Options{}},
		"a horizon of a second":     {store, headroom.DefaultCatalog(), headroom.Options{Horizon: 1e9}},
		"a horizon of 90 seconds":   {store, headroom.DefaultCatalog(), headroom.Options{Horizon: 90e9}},
		"a horizon of less than 0":  {store, headroom.DefaultCatalog(), headroom.Options{Horizon: -headroom.DefaultHorizon}},
		"a horizon with a fraction": {store, headroom.DefaultCatalog(), headroom.Options{Horizon: headroom.DefaultHorizon + 1}},
	} {
		if e, err := headroom.New(c.store, c.catalog, c.opts); !errors.Is(err, headroom.Invalid) || e != nil {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
	if _, err := headroom.New(store, headroom.DefaultCatalog(), headroom.Options{}); err != nil {
		t.Errorf("the zero settings: %v", err)
	}
}

// brokenStore is never asked.
type brokenStore struct{ headroom.Store }
