package github

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// maxTags is how many annotated tags may follow each other.
const maxTags = 4

// CheckTag refuses a tag that names another commit than the one of the release,
// whose source GitHub then offers beside the assets, and a tag that the
// repository does not have: GitHub would make it, at its default branch, when
// the release is published.
func (c *Client) CheckTag(ctx context.Context, commit string) error {
	named, err := c.TagOf(ctx)
	if err == nil && named[len(named)-1] != commit {
		err = &verdict.Error{Finding: verdict.Find(verdict.SourceMoved, c.URI(), "the tag %q names another commit than the one of the release", c.Tag).Differ(commit, strings.Join(named, " "))}
	}
	return err
}

// TagOf returns what the tag names: a commit, or tag objects and, last, what they name.
func (c *Client) TagOf(ctx context.Context) (named []string, err error) {
	var ref struct {
		Object struct {
			Type string `json:"type"`
			SHA  string `json:"sha"`
		} `json:"object"`
	}
	_, err = c.read(ctx, call{op: "reading the tag", url: c.api() + "/git/ref/tags/" + url.PathEscape(c.Tag)}, &ref)
	if errors.Is(err, ErrNotFound) {
		return nil, verdict.Refuse(verdict.Missing, c.URI(), "the repository has no tag %q, so GitHub would create it at its default branch", c.Tag).
			Advise("push the tag that was built, then run the command again; nothing was published")
	}
	for range maxTags {
		if named = append(named, ref.Object.SHA); err != nil || ref.Object.Type != "tag" {
			break
		}
		_, err = c.read(ctx, call{op: "reading the annotated tag", url: c.api() + "/git/tags/" + url.PathEscape(ref.Object.SHA)}, &ref)
	}
	return named, err
}

// Create makes a draft of a tag.
func (c *Client) Create(ctx context.Context, tag string) (r Release, err error) {
	_, err = c.read(ctx, call{op: "creating the draft", method: http.MethodPost, url: c.api() + "/releases", body: map[string]any{
		"tag_name": tag, "name": tag, "draft": true, "prerelease": c.prerelease(),
	}}, &r)
	return r, err
}

// prerelease reports whether the tag is a version before a release.
func (c *Client) prerelease() bool {
	v, err := version.Parse(c.Tag)
	return err == nil && v.Channel() != version.Stable
}

// Publish makes a draft public, with the tag as its title and without a text.
// Which release is the latest follows from the versions.
func (c *Client) Publish(ctx context.Context, release int64) error {
	_, err := c.read(ctx, call{op: "publishing the draft", method: http.MethodPatch, url: c.release(release), body: map[string]any{
		"draft": false, "name": c.Tag, "body": "", "prerelease": c.prerelease(), "make_latest": "legacy",
	}}, nil)
	return err
}

// Discard deletes a draft.
func (c *Client) Discard(ctx context.Context, release int64) error {
	_, err := c.read(ctx, call{op: "deleting the draft", method: http.MethodDelete, url: c.release(release)}, nil)
	return err
}

// Upload sends the bytes of an asset, under its name and label.
func (c *Client) Upload(ctx context.Context, release int64, a Asset, media string, content Content) (made Asset, err error) {
	query := url.Values{"name": {a.Name}}
	if a.Label != "" {
		query.Set("label", a.Label)
	}
	_, err = c.read(ctx, call{
		op: fmt.Sprintf("writing %q", a.Planned()), method: http.MethodPost,
		url: fmt.Sprintf("%s/releases/%d/assets?%s", c.uploads(), release, query.Encode()), raw: content, media: media,
	}, &made)
	return made, err
}

// Rename changes name and label of an asset.
func (c *Client) Rename(ctx context.Context, a Asset, planned string) error {
	_, err := c.read(ctx, call{op: fmt.Sprintf("renaming %q", a.Name), method: http.MethodPatch, url: c.asset(a.ID), body: map[string]any{
		"name": Flat(planned), "label": label(planned),
	}}, nil)
	return err
}

// Delete removes an asset. One that is gone already is no error.
func (c *Client) Delete(ctx context.Context, a Asset) error {
	_, err := c.read(ctx, call{op: fmt.Sprintf("deleting %q", a.Planned()), method: http.MethodDelete, url: c.asset(a.ID)}, nil)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// MayWrite checks whether the token may write: a denial is [fs.ErrPermission].
func (c *Client) MayWrite(ctx context.Context) error {
	var about struct {
		Permissions struct {
			Push bool `json:"push"`
		} `json:"permissions"`
	}
	if _, err := c.read(ctx, call{op: "asking for permission", url: c.api()}, &about); err != nil {
		return err
	}
	if !about.Permissions.Push {
		return fmt.Errorf("writing at %q needs a token with the permission contents: write: %w", c.URI(), fs.ErrPermission)
	}
	return nil
}
