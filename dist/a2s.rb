# The formula of one release. A tap holds it as Formula/a2s.rb.
class A2s < Formula
  desc "Publish capabilities, find them by intent, and run them under a guardian"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license "MIT"
@PLATFORMS@
  def install
    bin.install "a2s"
  end

  test do
    assert_equal "a2s #{version}", shell_output("#{bin}/a2s --version").strip
    system bin/"a2s", "demo"
  end
end
