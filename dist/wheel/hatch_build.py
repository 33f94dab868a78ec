"""Puts the program into the wheel, and tags the wheel for one platform."""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProgramHook(BuildHookInterface):
    """Adds the file `A2S_BINARY` as a script, for the platform `A2S_WHEEL_PLATFORM`."""

    def initialize(self, version, build_data):
        """Sets what hatchling cannot know."""
        binary = Path(os.environ["A2S_BINARY"])
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['A2S_WHEEL_PLATFORM']}"
        build_data["shared_scripts"] = {str(binary): binary.name}
