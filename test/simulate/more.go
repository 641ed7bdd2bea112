package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/backend/kit"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/watched"
	kits "github.com/waybill-release/waybill/pkg/pipeline/kit"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/pipeline/watch"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// gate opens the gate as commands do.
func (m *Made) gate(ctx context.Context, in process) (gate.Gate, error) {
	return gate.Open(ctx, m.Path(in.Profile), gate.Opening{
		Reader: profile.Reader{Now: in.Clock()}, Transport: in.Transport, OpenPlace: cloud.OpenPlace,
	})
}

// carry writes the staged release into a kit, in some worlds also what it has that an
// older kit lacks, and publishes it from there elsewhere.
func carry(m *Made, w *World) error {
	dice := w.dice("kit")
	form, delta := kits.Form{Compressed: dice.IntN(2) == 0}, dice.IntN(2) == 0
	w.Check = func(*Actor, *http.Request) error { return m.sound(w, "release") }
	kitOf := func(a *Actor) string { return filepath.Join(a.Disk, "lantern.kit") }
	run := func(ctx context.Context, a *Actor) error {
		g, err := m.gate(ctx, a.process())
		if err != nil {
			return err
		}
		if _, err := os.Stat(kitOf(a)); err != nil {
			if err := m.export(ctx, g, a.process(), kitOf(a), form); err != nil {
				return err
			}
		}
		if !delta {
			return m.unpack(ctx, g, a, kitOf(a))
		}
		older, change := filepath.Join(a.Disk, "older.kit"), filepath.Join(a.Disk, "change.kit")
		if _, err := os.Stat(older); err != nil {
			if err := errors.Join(os.WriteFile(older, m.older, 0o600), a.Keep()); err != nil {
				return err
			}
		}
		if _, err := os.Stat(change); err != nil {
			if _, _, err := kit.WriteDelta(ctx, older, kitOf(a), change, form.Compressed); err != nil {
				return err
			}
		}
		return m.unpack(ctx, g, a, change)
	}
	all := w.together([]string{"carrier"}, run)
	if err := w.settle(all[0], run); err != nil {
		return err
	}
	if w.file("release", "bin/lantern") == nil {
		return errors.New("the kit was imported, and its files are not there")
	}
	return m.sound(w, "release")
}

// export writes the staged release into a kit.
func (m *Made) export(ctx context.Context, g gate.Gate, in process, path string, form kits.Form) error {
	files, wrong := cloud.OpenPlace(m.Places.Files+"/staging/lantern/"+scene.Version+"/", in.Transport)
	images, none := registry.OpenRemote(m.Lab.Registry+"/staging/lantern", in.Transport)
	if err := errors.Join(wrong, none); err != nil {
		return err
	}
	r := g.Release(m.version, profile.Release, gate.Places{Files: files, Images: images}, in.Clock())
	decided, err := kits.Export(ctx, g, r, path, form)
	if err != nil {
		return err
	}
	return decided.Verdict.Err()
}

// unpack publishes the release in a kit, which must be whole: it has its name only then.
func (m *Made) unpack(ctx context.Context, g gate.Gate, a *Actor, path string) error {
	if _, err := kit.Check(ctx, path); err != nil {
		return fmt.Errorf("simulate: the kit has its name, and is not whole: %w", err)
	}
	files, wrong := store.Open(path+"/"+kit.Files, nil)
	images, none := registry.OpenLayout(path)
	place, bad := cloud.Open("gs+http://"+destBucket+"/release/lantern/"+scene.Version+"/", a.Transport)
	to, unnamed := registry.OpenRemote(destRegistry+"/release/lantern", a.Transport)
	if err := errors.Join(wrong, none, bad, unnamed); err != nil {
		return err
	}
	r := g.Release(m.version, profile.Release, gate.Places{Files: files, Images: images}, a.Clock())
	decided, err := kits.Import(ctx, g, r, promote.To{Files: place, Writer: place, Images: to})
	if err != nil {
		return err
	}
	return decided.Verdict.Err()
}

// watching follows the log. Under all faults it reports only unexplained entries and places
// that do not answer; at the end it has read the whole log, and reports each of these
// entries.
func watching(m *Made, w *World) error {
	_, size := m.Lab.LoggedSince(0)
	from := max(0, size-10)
	run := func(ctx context.Context, a *Actor) error {
		g, err := m.gate(ctx, a.process())
		if err != nil {
			return err
		}
		state := filepath.Join(a.Disk, "watch")
		if err := os.MkdirAll(state, 0o700); err != nil {
			return err
		}
		v := watch.Config{Gate: g, Transport: a.Transport, Logs: []string{m.Lab.Rekor}, State: state, Start: watch.Start{From: int64(from)}}.Once(ctx, a.Clock())
		open := 0
		for _, f := range v.Findings {
			switch {
			case f.Code == watched.Unexplained:
				open++
			case f.Code.Outcome() != verdict.Unavailable:
				return &verdict.Error{Finding: f}
			default:
				return &verdict.UnavailableError{Place: f.Subject, Op: "watching", Err: errors.New(f.Message)}
			}
		}
		if open == 0 {
			return errors.New("simulate: entries that nothing explains are in the log, and none is reported")
		}
		return nil
	}
	all := w.together([]string{"watcher"}, run)
	if err := w.settle(all[0], run); err != nil {
		return err
	}
	cursors, err := filepath.Glob(filepath.Join(all[0].Disk, "watch", "*.cursor.json"))
	if err != nil || len(cursors) != 1 {
		return fmt.Errorf("want one cursor, got %v: %w", cursors, err)
	}
	raw, err := os.ReadFile(cursors[0])
	if err != nil {
		return err
	}
	var c struct {
		Next int
		Open []struct{}
	}
	if err := json.Unmarshal(raw, &c); err != nil || c.Next != size || len(c.Open) != size-from {
		return fmt.Errorf("the log has %d entries, of which %d are not explained; the cursor says %d and %d (%w)", size, size-from, c.Next, len(c.Open), err)
	}
	return nil
}
