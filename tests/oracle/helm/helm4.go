package main

import (
	"fmt"
	"io"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/getter"
	kubefake "helm.sh/helm/v4/pkg/kube/fake"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// render4 is what the command line of Helm 4 does, with files in memory.
func render4(asked request, files []file, paths []string) (outcome, error) {
	options := values.Options{
		ValueFiles:    paths,
		Values:        asked.arguments("set"),
		StringValues:  asked.arguments("set-string"),
		JSONValues:    asked.arguments("set-json"),
		LiteralValues: asked.arguments("set-literal"),
	}
	user, err := options.MergeValues(getter.Providers{})
	if err != nil {
		return outcome{}, err
	}
	buffered := []*archive.BufferedFile{}
	for _, f := range files {
		buffered = append(buffered, &archive.BufferedFile{Name: f.name, Data: f.data})
	}
	loaded, err := loader.LoadFiles(buffered)
	if err != nil {
		return outcome{}, err
	}
	if t := loaded.Metadata.Type; t != "" && t != "application" {
		return outcome{}, fmt.Errorf("%s charts are not installable", t)
	}
	accessor, err := chart.NewAccessor(loaded)
	if err != nil {
		return outcome{}, err
	}
	if err := action.CheckDependencies(loaded, accessor.MetaDependencies()); err != nil {
		return outcome{}, err
	}
	configuration := action.NewConfiguration()
	configuration.Releases = storage.Init(driver.NewMemory())
	configuration.KubeClient = &kubefake.PrintingKubeClient{Out: io.Discard}
	install := action.NewInstall(configuration)
	install.DryRunStrategy = action.DryRunClient
	install.Replace, install.IncludeCRDs = true, true
	install.ReleaseName, install.Namespace = "rel", "ns"
	install.IsUpgrade, install.SkipSchemaValidation = asked.Upgrade, asked.SkipSchema
	install.APIVersions = asked.APIVersions
	install.KubeVersion, err = common.ParseKubeVersion(asked.KubeVersion)
	if err != nil {
		return outcome{}, err
	}
	done, err := install.Run(loaded, user)
	if err != nil {
		return outcome{}, err
	}
	made, ok := done.(*release.Release)
	if !ok {
		return outcome{}, fmt.Errorf("a release of an unknown version: %T", done)
	}
	got := outcome{Manifest: made.Manifest, Hooks: []hook{}, Notes: made.Info.Notes}
	for _, h := range made.Hooks {
		got.Hooks = append(got.Hooks, hook{
			Path: h.Path, Name: h.Name, Kind: h.Kind, Manifest: h.Manifest, Weight: h.Weight,
			Events: texts(h.Events), DeletePolicies: texts(h.DeletePolicies), LogPolicies: texts(h.OutputLogPolicies),
		})
	}
	return got, nil
}
