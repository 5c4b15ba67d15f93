"""How everything looks: colours, icons, the style of widgets."""
