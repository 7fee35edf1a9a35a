package main

import (
	"os"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes a bill of materials in CycloneDX's format. It has no time and no serial number, so that equal
// builds have equal ones.
func writeSBOM(path, release string, components []component) error {
	bom := cyclonedx.NewBOM()
	program := &cyclonedx.Component{BOMRef: "outlierd", Type: cyclonedx.ComponentTypeApplication, Name: "outlierd",
		Version: release, Licenses: licences([]string{"Apache-2.0"})}
	bom.Metadata = &cyclonedx.Metadata{Component: program}
	all, refs := []cyclonedx.Component{}, []string{}
	for _, c := range components {
		item := cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, Name: c.Name, Version: c.Version,
			BOMRef: c.Name, Licenses: licences(c.Licences)}
		if c.Version != "" {
			item.PackageURL = "pkg:golang/" + c.Name + "@" + strings.ReplaceAll(c.Version, "+", "%2B")
			item.BOMRef = item.PackageURL
		}
		all, refs = append(all, item), append(refs, item.BOMRef)
	}
	bom.Components = &all
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: "outlierd", Dependencies: &refs}}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return file.Close()
}

func licences(ids []string) *cyclonedx.Licenses {
	var all cyclonedx.Licenses
	for _, id := range ids {
		all = append(all, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &all
}
