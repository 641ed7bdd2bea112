package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// successor is who signs releases after the theft.
const successor = "release-2@lab.invalid"

// token writes a fresh token of a role to NAME.token.
func (d *drill) token(name, role string) error {
	return d.write(name+".token", d.Lab.Token(role))
}

// honest releases a version, mirrors it, packs a kit, starts the gate, and lets the watch
// see that every entry of the log is explained.
func (d *drill) honest(ctx context.Context) error {
	if err := errors.Join(ends(d.Stage(ctx), 0), ends(d.Release(ctx), 0)); err != nil {
		return err
	}
	release, registry := d.Places.Files, d.Lab.Registry
	mirror := fmt.Sprintf(`apiVersion: waybill/v1
kind: Profile
name: mirror
policy: policy.yaml
trustedRoot: trusted_root.json
places:
  files: {canonical: "https://dl.example.test/lantern/{version}/", staging: "%[1]s/release/lantern/{version}/", release: "%[1]s/mirror/lantern/{version}/"}
  images: {canonical: registry.example.test/lantern, staging: "%[2]s/release/lantern", release: "%[2]s/mirror/lantern"}
`, release, registry)
	own, err := os.ReadFile(d.Path("profile.yaml"))
	if err != nil {
		return err
	}
	policy, err := os.ReadFile(d.Path("policy.yaml"))
	if err != nil {
		return err
	}
	old := func(profile string) string { return strings.Replace(profile, "policy.yaml", "old-policy.yaml", 1) }
	if err := errors.Join(d.write("mirror.yaml", mirror), d.write("old-mirror.yaml", old(mirror)), d.write("old-profile.yaml", old(string(own))),
		d.write("old-policy.yaml", string(policy)), os.Mkdir(d.Path("records"), 0o755)); err != nil {
		return err
	}
	pin, err := d.copies(ctx, good)
	if err != nil {
		return err
	}
	if err := d.startGate(ctx); err != nil {
		return err
	}
	d.ask(pin)
	if d.clean, err = nextSecond(ctx); err != nil {
		return err
	}
	if err := ends(d.watch(ctx, "--from", "0"), 0); err != nil {
		return err
	}
	return d.accepted(ctx, good)
}

// copies brings a release to the mirror and into a kit, and returns the digest of what
// the kit would be judged by.
func (d *drill) copies(ctx context.Context, version string) (pin string, err error) {
	if err := ends(d.Run(ctx, "waybill", "promote", version, "--to", "release", "--profile", "mirror.yaml", "--confirm"), 0); err != nil {
		return "", err
	}
	r := d.Run(ctx, "waybill", "kit", "export", version, kit(version), "--profile", "profile.yaml")
	return regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(strings.SplitN(r.Stdout+r.Stderr, "--pin ", 2)[1]), ends(r, 0)
}

func kit(version string) string { return "lantern-" + version + ".kit" }

// ask lists the places.
func (d *drill) ask(pin string) {
	add := func(name string, old bool, command string) {
		d.places = append(d.places, &Place{Name: name, Old: old, ask: func(ctx context.Context, version string) scene.Result {
			words := fields(strings.ReplaceAll(command, "VERSION", version))
			if name == "kit" && old && d.listed() {
				words = append(words, "--known-defects", "records/withdrawn.yaml.sigstore.json")
			}
			return d.Run(ctx, append(words, "--output", "json")...)
		}})
	}
	image := "waybill gate check " + d.Lab.Registry + "/release/lantern/lantern:VERSION --release-version VERSION"
	add("origin", false, "k8s-verify-release VERSION --profile profile.yaml")
	add("mirror", false, "k8s-verify-release VERSION --profile mirror.yaml")
	add("kit", false, "k8s-verify-release VERSION --kit lantern-VERSION.kit --profile profile.yaml")
	add("gate check", false, image+" --policy policy.yaml --trusted-root trusted_root.json")
	add("gate serve", false, image+" --server "+d.gate.address+" --identity-token caller=caller.token")
	add("origin", true, "k8s-verify-release VERSION --profile old-profile.yaml")
	add("mirror", true, "k8s-verify-release VERSION --profile old-mirror.yaml")
	add("kit", true, "k8s-verify-release VERSION --kit lantern-VERSION.kit --pin "+pin)
}

// listed reports whether the withdrawal has reached who has only a kit.
func (d *drill) listed() bool {
	_, err := os.Stat(d.Path("records", "withdrawn.yaml.sigstore.json"))
	return err == nil
}

// accepted expects every place to accept a version.
func (d *drill) accepted(ctx context.Context, version string) error {
	for _, p := range d.places {
		if err := ends(p.ask(ctx, version), 0); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// watch makes one pass over the log.
func (d *drill) watch(ctx context.Context, flags ...string) scene.Result {
	return d.Run(ctx, append([]string{"waybill", "watch", "--profile", "profile.yaml", "--log", d.Lab.Rekor, "--state", "watch", "--releases", "state", "--releases", "records"}, flags...)...)
}

// nextSecond waits until the clock shows the next second: windows count in seconds.
func nextSecond(ctx context.Context) (string, error) {
	next := time.Now().Truncate(time.Second).Add(time.Second)
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(time.Until(next)):
		return next.UTC().Format(time.RFC3339), nil
	}
}

// theft: a thief with the token of the release identity, who can also push a tag, has it
// built as every tag is, signs it, and publishes it everywhere.
func (d *drill) theft(ctx context.Context) error {
	const change = `sed -i 's/echo lantern/echo stolen/' release.yaml && git -c user.name=Thief -c user.email=thief@example.test commit -qam "faster" &&
git -c user.name=Thief -c user.email=thief@example.test tag -am faster ` + stolen
	push := exec.CommandContext(ctx, "sh", "-c", change)
	push.Dir = d.Path("lantern")
	if out, err := push.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", change, err, out)
	}
	for _, role := range []string{lab.RoleBuilder, "builder-unisolated", lab.RoleRelease} {
		if err := d.token(role, role); err != nil {
			return err
		}
	}
	tokens := " --identity-token builder=builder.token --identity-token builder-unisolated=builder-unisolated.token --identity-token release=release.token"
	for _, c := range []string{"waybill stage " + stolen + " --profile profile.yaml --state thief --source lantern --confirm" + tokens, "waybill release " + stolen + " --profile profile.yaml --state thief --confirm"} {
		if err := ends(d.Run(ctx, fields(c)...), 0); err != nil {
			return err
		}
	}
	if _, err := d.copies(ctx, stolen); err != nil {
		return err
	}
	return d.accepted(ctx, stolen)
}

// alarm: the watch finds the thief's entries. From here on seconds are counted.
func (d *drill) alarm(ctx context.Context) error {
	r, err := d.runs(ctx, 1, "waybill", "watch", "--profile", "profile.yaml", "--log", d.Lab.Rekor, "--state", "watch", "--releases", "state", "--releases", "records", "--output", "json")
	d.alarmed = time.Now()
	if err != nil {
		return err
	}
	var v struct {
		Findings []struct{ Code, Subject string }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil {
		return err
	}
	for _, f := range v.Findings {
		if f.Code != "LOG_UNEXPLAINED" {
			return fmt.Errorf("the watch reports %s:\n%s", f.Code, r.Stdout)
		}
		d.entries = append(d.entries, f.Subject)
	}
	return nil
}

type step struct {
	name string
	do   func(context.Context) error
}

// incident is what docs/how-to/incident.md says.
func (d *drill) incident() []step {
	return []step{
		{"the policy ends the identity", d.revoke},
		{"the release is withdrawn at the origin", func(ctx context.Context) error {
			return errors.Join(d.token("release-2", successor), d.each(ctx, "waybill seal "+stolen+` --withdraw --at release --reason "signed with a stolen identity" --use `+good+" --profile profile.yaml --identity-token release=release-2.token --confirm"))
		}},
		{"the mirror takes the withdrawal", func(ctx context.Context) error {
			return d.each(ctx, "waybill promote "+stolen+" --to release --profile mirror.yaml --confirm")
		}},
		{"the signed list of withdrawals", d.list},
		{"the earlier release is sealed again", func(ctx context.Context) error {
			d.resealed = true
			return d.each(ctx, "waybill seal "+good+` --amend --at release --reason "sealed with the new identity" --profile profile.yaml --identity-token release=release-2.token --confirm`,
				"waybill promote "+good+" --to release --profile mirror.yaml --confirm")
		}},
		{"the entries are handled", d.handled},
		{"the thief signs once more", d.onceMore},
	}
}

// revoke ends the window of the stolen identity when the log was last explained, begins
// that of the next one, and tells the gate.
func (d *drill) revoke(ctx context.Context) error {
	raw, err := os.ReadFile(d.Path("policy.yaml"))
	if err != nil {
		return err
	}
	issuer, before := d.Lab.Identity(lab.RoleRelease)
	listed := fmt.Sprintf("release: [{issuer: %q, subject: %q, type: email}]", issuer, before)
	text := strings.Replace(string(raw), listed, fmt.Sprintf(`release:
  - {issuer: %[1]q, subject: %[2]q, type: email, until: %[4]q}
  - {issuer: %[1]q, subject: %[3]q, type: email, from: %[4]q}`, issuer, before, successor, d.clean), 1)
	if text == string(raw) {
		return errors.New("the policy does not list the release identity as expected")
	}
	if err := d.write("policy.yaml", text); err != nil {
		return err
	}
	if err := d.each(ctx, "waybill policy lint policy.yaml"); err != nil {
		return err
	}
	return d.gate.reload(ctx)
}

// list signs the list of withdrawals, which also reaches who has only a kit.
func (d *drill) list(ctx context.Context) error {
	day := time.Now().UTC().AddDate(0, 0, -1)
	text := fmt.Sprintf(`apiVersion: waybill/v1
kind: KnownDefects
name: lantern-known-defects
sequence: 1
issued: %q
expires: %q
withdrawals:
- {version: %s, reason: signed with a stolen identity, source: "https://example.test/lantern/advisories/1", since: %q}
`, day.Format(time.RFC3339), day.AddDate(1, 0, 0).Format(time.RFC3339), stolen, d.clean)
	if err := errors.Join(d.write("records/withdrawn.yaml", text), d.token("policy", lab.RolePolicy)); err != nil {
		return err
	}
	return d.each(ctx, "waybill policy sign records/withdrawn.yaml --profile profile.yaml --identity-token policy=policy.token --confirm")
}

// handled tells the watch what the entries were. The withdrawal and the new seal explain
// the entries of their own.
func (d *drill) handled(ctx context.Context) error {
	for _, version := range []string{good, stolen} {
		raw, err := d.Places.Objects.Get(ctx, "release/lantern/"+version+"/"+releasemanifest.Name)
		if err != nil {
			return err
		}
		if err := d.write("records/"+version+".json", string(raw)); err != nil {
			return err
		}
	}
	args := []string{"waybill", "watch", "--profile", "profile.yaml", "--log", d.Lab.Rekor, "--state", "watch", "--releases", "state", "--releases", "records"}
	for _, entry := range d.entries {
		args = append(args, "--handled", entry)
	}
	_, err := d.runs(ctx, 0, args...)
	d.ended = time.Since(d.alarmed)
	return err
}

// onceMore: the thief signs the same manifest again, and puts it where the withdrawal is.
// Who has the new policy refuses it, and the watch raises an alarm.
func (d *drill) onceMore(ctx context.Context) error {
	const name = "release/lantern/" + stolen + "/" + releasemanifest.Name
	withdrawal, err := d.Places.Objects.Get(ctx, name)
	if err != nil {
		return err
	}
	sealed, err := os.ReadFile(d.Path("thief", "files", releasemanifest.Name))
	if err != nil {
		return err
	}
	var bundle struct {
		DSSEEnvelope struct{ Payload []byte }
	}
	if err := json.Unmarshal(sealed, &bundle); err != nil {
		return err
	}
	forged, err := d.Sign(ctx, lab.RoleRelease, bundle.DSSEEnvelope.Payload)
	if err != nil {
		return err
	}
	if err := d.Places.Objects.Put(ctx, name, forged); err != nil {
		return err
	}
	r := d.Run(ctx, "k8s-verify-release", stolen, "--profile", "profile.yaml", "--output", "json")
	if all, err := codes(r); err != nil || r.Code != 1 || len(all) != 1 || all[0] != "IDENTITY_WINDOW" {
		return fmt.Errorf("the thief's second manifest: %q, %w", all, errors.Join(err, ends(r, 1)))
	}
	if err := ends(d.watch(ctx), 1); err != nil {
		return err
	}
	return d.Places.Objects.Put(ctx, name, withdrawal)
}
