--TEST--
A fatal error in an autoloader is not reported as a missing class
--FILE--
<?php
$registry = new Pillion\ToolRegistry();
spl_autoload_register(function (string $class) {
    if ($class === 'Dies') {
        eval('class Twice {} class Twice {}');
    } elseif ($class !== 'Missing') {
        throw new DomainException("no $class today");
    }
});
foreach (['Missing', 'Throws', 'Dies'] as $class) {
    try {
        $registry->registerObject($class);
    } catch (Throwable $e) {
        echo get_class($e), ': ', $e->getMessage(), "\n";
    }
}
echo "not reached\n";
?>
--EXPECTF--
Pillion\Exception\InvalidInputException: There is no class 'Missing'
DomainException: no Throws today

Fatal error: Cannot %Sdeclare class Twice%s
