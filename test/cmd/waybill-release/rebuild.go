//go:build unix

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/waybill-release/waybill/test/lab"
)

// rebuilders are who builds the final release again. Each has the identity of a
// workflow in a repository of its own.
func rebuilders() []lab.Workflow {
	return []lab.Workflow{
		{Repository: "one-rebuilder/waybill", File: "rebuild.yml", Tag: final},
		{Repository: "two-rebuilder/waybill", File: "rebuild.yml", Tag: final},
	}
}

func rebuilderID(w lab.Workflow) string { return "https://github.com/" + w.Repository }

// prepareConsumer writes the policy of a user who asks for two rebuilders, which
// is else our own, and a profile with it.
func (m *maker) prepareConsumer() error {
	text := "rebuilt:\n  atLeast: 2\n  stages: [release]\n  of:\n"
	for _, w := range rebuilders() {
		issuer, subject := w.Identity(m.lab)
		text += fmt.Sprintf("  - {id: %q, signers: [{issuer: %q, subject: %q, type: uri}]}\n", rebuilderID(w), issuer, subject)
	}
	policy, err := os.ReadFile(m.path("policy.yaml"))
	if err != nil {
		return err
	}
	profile, err := os.ReadFile(m.path("profile.yaml"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.path("consumer-policy.yaml"), append(policy, text...), 0o644); err != nil {
		return err
	}
	return os.WriteFile(m.path("consumer.yaml"), []byte(strings.Replace(string(profile), "policy: policy.yaml", "policy: consumer-policy.yaml", 1)), 0o644)
}

// rebuiltByOthers has each rebuilder build the public release again, from the
// provenance that is published with it alone, and sign that the bytes are equal.
// A user whose policy asks for both accepts the release after the last, and not
// before.
func (m *maker) rebuiltByOthers() error {
	m.say("a user whose policy asks for two rebuilders refuses %s as long as there are fewer", final)
	verify := []string{"verify", "release", final, "--profile", "consumer.yaml"}
	for i, code := range []string{"EVIDENCE_MISSING", "THRESHOLD"} {
		if err := m.refused(code, verify...); err != nil {
			return err
		}
		w := rebuilders()[i]
		w.Commit = m.commit
		token, err := w.Token(m.lab)
		if err != nil {
			return err
		}
		if err := os.WriteFile(m.path("rebuilder.token"), []byte(token), 0o600); err != nil {
			return err
		}
		m.say("%s builds %s again from its provenance, and signs that the bytes are equal", w.Repository, final)
		if err := m.waybill("rebuild", final, "--profile", "consumer.yaml", "--sign", rebuilderID(w), "--identity-token", "rebuilder="+m.path("rebuilder.token"), "--confirm"); err != nil {
			return err
		}
	}
	m.say("the user accepts %s", final)
	return m.waybill(verify...)
}

// refused runs waybill, which must refuse with a code.
func (m *maker) refused(code string, args ...string) error {
	err := m.waybill(args...)
	if err == nil || !strings.Contains(err.Error(), "exit status 1\n") || !strings.Contains(err.Error(), code) {
		return fmt.Errorf("waybill %s: want %s, got %w", strings.Join(args, " "), code, err)
	}
	fmt.Printf("        refused: %s\n", code)
	return nil
}
