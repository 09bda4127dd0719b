--TEST--
The extension loads without notices, with its settings and all classes in its namespace
--FILE--
<?php
$extension = new ReflectionExtension('pillion');
echo $extension->getName(), ' ', preg_match('/^\d+\.\d+\.\d+/', $extension->getVersion()), "\n";
// SurfaceTest compares the classes of this namespace with the library's.
echo implode("\n", preg_grep('/^Pillion\\\\/', $extension->getClassNames(), PREG_GREP_INVERT)), "\n";
print_r($extension->getINIEntries());
echo implode(' ', array_keys($extension->getFunctions())), "\n";
?>
--EXPECT--
pillion 1

Array
(
    [pillion.log_level] => warning
    [pillion.max_response_bytes] => 0
    [pillion.max_sessions] => 64
    [pillion.session_idle_ms] => 300000
    [pillion.socket] => 
    [pillion.timeout_ms] => 0
)

